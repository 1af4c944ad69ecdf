//@ cpus: default
/* mmap(MAP_STACK) is a mapping like any other: fresh, as protected as was asked for, gone when it is unmapped, and
 * nothing of an earlier one is left in it. */
#include "accessible.h"

enum { PAGE = 4096, LEN = 64 << 10, LARGE = 1 << 20 };

static char *map(size_t len, int protection) {
  char *at = mmap(NULL, len, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  need(at != MAP_FAILED);
  return at;
}

static void show(const char *what, char *at, size_t len) {
  char line[256] = "";
  for (size_t offset = 0; offset < len; offset += len / 4 < PAGE ? PAGE : len / 4)
    snprintf(line + strlen(line), sizeof line - strlen(line), " %s,", look(at + offset));
  say("%s:%s last %s", what, line, look(at + len - 1));
}

static const size_t lengths[] = {2 * PAGE, LEN, LARGE, 8 << 20};

CASE(as_asked_for) {
  watch_faults();
  for (int i = 0; i < COUNT(lengths); i++) {
    char *at = map(lengths[i], PROT_READ | PROT_WRITE);
    show("open", at, lengths[i]);
    memset(at, 1, lengths[i]);
    show("written", at, lengths[i]);
    say("%s", result(munmap(at, lengths[i])));
    show("unmapped", at, lengths[i]);
    at = map(lengths[i], PROT_NONE);
    show("closed", at, lengths[i]);
    say("%s", result(munmap(at, lengths[i])));
    at = map(lengths[i], PROT_READ);
    show("readable", at, lengths[i]);
    munmap(at, lengths[i]);
  }
}

/* As glibc makes guards, as Rust does, larger, smaller, and in the middle. */
CASE(guards) {
  watch_faults();
  for (int i = 1; i < COUNT(lengths); i++) {
    size_t len = lengths[i];
    char *at = map(len, PROT_NONE);
    say("%s", result(mprotect(at + PAGE, len - PAGE, PROT_READ | PROT_WRITE)));
    show("above a guard", at, len);
    memset(at + PAGE, 1, len - PAGE);
    say("%s", result(mprotect(at, 2 * PAGE, PROT_NONE)));
    say("larger %s %s", look(at + PAGE), look(at + 2 * PAGE));
    say("%s", result(mprotect(at + PAGE, PAGE, PROT_READ | PROT_WRITE)));
    say("smaller %s %s, kept %s", look(at), look(at + PAGE), look(at + 2 * PAGE));
    say("%s", result(mprotect(at, PAGE, PROT_READ | PROT_WRITE)));
    say("none %s", look(at));
    say("%s", result(mprotect(at + 4 * PAGE, PAGE, PROT_NONE)));
    say("in the middle %s %s %s", look(at + 3 * PAGE), look(at + 4 * PAGE), look(at + 5 * PAGE));
    say("%s", result(mprotect(at, len, PROT_READ)));
    say("all %s %s", look(at), look(at + len - 1));
    say("%s", result(munmap(at, len)));

    at = map(len, PROT_READ | PROT_WRITE);
    say("%s", result(mprotect(at, PAGE, PROT_NONE)));
    say("made later %s %s", look(at), look(at + PAGE));
    say("%s", result(mprotect(at, len, PROT_NONE)));
    show("all closed", at, len);
    say("%s", result(mprotect(at + len / 2, PAGE, PROT_READ | PROT_WRITE)));
    say("opened in the middle %s %s %s", look(at + len / 2 - PAGE), look(at + len / 2), look(at + len / 2 + PAGE));
    say("%s", result(munmap(at, len)));

    at = map(len, PROT_READ | PROT_WRITE);
    at[0] = at[PAGE] = 1;
    say("%s %s", result(mprotect(at, PAGE, PROT_NONE)), look(at));
    say("%s", result(mprotect(at, PAGE, PROT_READ | PROT_WRITE)));
    say("what was written is still %s", look(at));
    say("half %s", result(munmap(at, len / 2)));
    say("%s %s", look(at), look(at + len / 2));
    say("%s", result(munmap(at + len / 2, len / 2)));
  }
}

static char *guarded(void) {
  char *at = map(LEN, PROT_NONE);
  need(mprotect(at + PAGE, LEN - PAGE, PROT_READ | PROT_WRITE) == 0);
  return at;
}

static void next_is_fresh(char *at) {
  say("unmapped %s", result(munmap(at, LEN)));
  char *next = map(LEN, PROT_READ | PROT_WRITE);
  show("next", next, LEN);
  munmap(next, LEN);
}

CASE(nothing_is_left_of_an_earlier_one) {
  watch_faults();
  char *at = guarded();
  need(munmap(at, LEN) == 0);
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
  say("free address %d", mmap(at, LEN, PROT_READ | PROT_WRITE, flags, -1, 0) == at);
  munmap(at, LEN);

  at = guarded();
  need(mmap(at + PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at + PAGE);
  show("overlaid", at, LEN);
  next_is_fresh(at);

  at = guarded();
  say("moved %d", mremap(at + PAGE, PAGE, 4 * LEN, MREMAP_MAYMOVE) != MAP_FAILED);
  say("%s %s", look(at), look(at + PAGE));
  next_is_fresh(at);

  at = guarded();
  say("shrunk %d", mremap(at, LEN, LEN / 2, 0) == at || errno == EFAULT);
  next_is_fresh(at);

  at = guarded();
  say("key %s", result(syscall(SYS_pkey_mprotect, at, LEN, PROT_READ, -1)));
  show("with a key", at, LEN);
  next_is_fresh(at);

  at = guarded();
  memset(at + PAGE, 1, LEN - PAGE);
  say("advice %s", result(madvise(at, LEN, MADV_WIPEONFORK)));
  pid_t child = fork();
  if (child == 0) {
    show("wiped", at, LEN);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  next_is_fresh(at);

  at = guarded();
  memset(at + PAGE, 1, LEN - PAGE);
  say("advice %s", result(madvise(at, LEN, MADV_DONTNEED)));
  show("dropped", at, LEN);
  say("%s", result(madvise(at, LEN, MADV_DONTFORK)));
  need(munmap(at, LEN) == 0);
  at = map(LEN, PROT_READ | PROT_WRITE);
  child = fork();
  if (child == 0) {
    show("next, of a child", at, LEN);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  munmap(at, LEN);
}

/* Guards are inherited, and can be taken away by a child. */
CASE(child) {
  watch_faults();
  char *at = guarded(), *closed = map(LEN, PROT_NONE);
  memset(at + PAGE, 1, LEN - PAGE);
  pid_t child = fork();
  if (child == 0) {
    show("guarded", at, LEN);
    show("closed", closed, LEN);
    say("%s %s", result(mprotect(at, LEN, PROT_READ | PROT_WRITE)), look(at));
    say("%s %s", result(mprotect(closed + PAGE, LEN - PAGE, PROT_READ | PROT_WRITE)), look(closed));
    show("opened", closed, LEN);
    say("%s %s", result(munmap(at, LEN)), look(at));
    char *fresh = map(LEN, PROT_NONE);
    show("fresh", fresh, LEN);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  show("still guarded", at, LEN);
  show("still closed", closed, LEN);
}

/* Several at once: a range of unmap and protect that is not one stack. */
/* What is sealed stays as it is until the process ends, and nothing of it is in a later mapping. Before Linux 6.10: ENOSYS. */
CASE(sealed) {
  enum { MSEAL = 462 };
  watch_faults();
  for (int i = 0; i < COUNT(lengths); i++) {
    size_t len = lengths[i];
    char *at = map(len, PROT_READ | PROT_WRITE), *guarded = map(len, PROT_NONE);
    memset(at, 1, len);
    say("%s", result(mprotect(guarded + PAGE, len - PAGE, PROT_READ | PROT_WRITE)));
    say("seals %s %s", result((int)syscall(MSEAL, at, len, 0)), result((int)syscall(MSEAL, guarded, len, 0)));
    for (char *mapping = at;; mapping = guarded) {
      say("unmap %s", result(munmap(mapping, len)));
      say("protect %s", result(mprotect(mapping, PAGE, PROT_NONE)));
      say("move %d", mremap(mapping, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, map(len, PROT_NONE)) != MAP_FAILED);
      say("over it %d", mmap(mapping, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
      say("advice %s", result(madvise(mapping + PAGE, PAGE, MADV_DONTNEED)));
      show("stays", mapping, len);
      if (mapping == guarded) break;
    }
    for (int n = 0; n < 4; n++) {
      char *next = map(len, PROT_READ | PROT_WRITE);
      show("later", next, len);
      say("%s %s", result(mprotect(next, PAGE, PROT_NONE)), result(munmap(next, len)));
    }
  }
}

CASE(ranges) {
  watch_faults();
  char *room = mmap(NULL, 4 * LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char *at = guarded();
  say("%d", mremap(at + PAGE, LEN - PAGE, LEN - PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room) == room);
  say("moved %s, guard %s, hole %s", look(room), look(at), look(at + PAGE));
  say("%s", result(munmap(at, LEN)));
  for (int i = 0; i < 100; i++) {
    char *one = guarded(), *two = guarded();
    memset(one + PAGE, 1, LEN - PAGE);
    char *low = one < two ? one : two, *high = one < two ? two : one;
    if (high - low == LEN) {
      need(mprotect(low, 2 * LEN, PROT_READ | PROT_WRITE) == 0);
      must(look(low) == look(high) && strcmp(look(low), "zero") == 0);
      need(munmap(low, 2 * LEN) == 0);
      must(strcmp(look(low), "no access") == 0);
    } else need(munmap(low, LEN) == 0 && munmap(high, LEN) == 0);
  }
}
