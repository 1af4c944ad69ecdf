/* Words of shared memory that are the program's own, whatever they look like; words that move; words of both kinds at once. */
#include "futex.h"

static void *shared_memory(size_t size) {
  void *place = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  need(place != MAP_FAILED);
  return place;
}

static void end_child(pid_t child) {
  int status;
  need(waitpid(child, &status, 0) == child);
  say("child %s", ended(status));
}

/* A number of the range from which other processes' thread ids may come, with the mark of waiters: a program's flags. */
CASE(flags_and_a_counter) {
  _Atomic uint32_t *word = shared_memory(4096);
  int changed = 0, woken = 0;
  for (uint32_t low = 0x400001; low < 0x10000000; low += 0x1234567) {
    uint32_t value = *word = 0x80000000u | low;
    pid_t child = fork();
    if (child == 0) {
      wait_until(waiters(word, 0) == 1 || *word != value);
      _exit(futex(word, FUTEX_WAKE, 1, NULL, NULL, 0) != 1);
    }
    woken += futex(word, FUTEX_WAIT, value, NULL, NULL, 0) == 0;
    changed += *word != value;
    int status;
    need(waitpid(child, &status, 0) == child);
    woken += status == 0;
  }
  say("woken %d, changed %d", woken, changed);
}

static void *wait_for_a_bit(void *argument) {
  _Atomic uint32_t *word = argument;
  *word = 0x80000000u | (uint32_t)gettid();
  atomic_store(&word[1], 1);
  return (void *)syscall(SYS_futex, word, FUTEX_WAIT_BITSET, *word, NULL, NULL, 4);
}
CASE(bits_of_a_word_with_an_owner) {
  _Atomic uint32_t *word = shared_memory(4096);
  pthread_t thread = start(wait_for_a_bit, word);
  wait_until(word[1] && waiters(word, 0) == 1);
  say("other bits %s", result(futex(word, FUTEX_WAKE_BITSET, 1, NULL, NULL, ~4u)));
  say("its bit %s", result(futex(word, FUTEX_WAKE_BITSET, 1, NULL, NULL, 4)));
  say("wait %ld", (long)finish(thread));
}

static void woken_by_a_child(_Atomic uint32_t *word) {
  *word = 0;
  pid_t child = fork();
  if (child == 0) {
    wait_until(waiters(word, 0) == 1);
    _exit((int)futex(word, FUTEX_WAKE, 1, NULL, NULL, 0));
  }
  struct timespec soon = {20, 0};
  say("wait %s", result(futex(word, FUTEX_WAIT, 0, &soon, NULL, 0)));
  end_child(child);
}
CASE(moved_and_grown) {
  char *old = shared_memory(4096);
  char *grown = mremap(old, 4096, 1 << 20, MREMAP_MAYMOVE);
  need(grown != MAP_FAILED);
  woken_by_a_child((void *)grown);
  char *place = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char *moved = mremap(grown, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, place + 4096);
  need(moved == place + 4096);
  woken_by_a_child((void *)moved);
  char *twin = mremap(moved, 0, 4096, MREMAP_MAYMOVE);
  need(twin != MAP_FAILED);
  woken_by_a_child((void *)twin);
}

/* What lies where shared memory was is the process's own. */
static void *wait_plainly(void *word) { return (void *)futex(word, FUTEX_WAIT, 0, NULL, NULL, 0); }
CASE(left_behind) {
  char *old = shared_memory(4096), *elsewhere = shared_memory(4096);
  need(mremap(old, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere) == elsewhere);
  void *again = mmap(old, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  need(again == old);
  pthread_t thread = start(wait_plainly, again);
  wait_until(waiters(again, 0) == 1);
  say("wake %s", result(futex(again, FUTEX_WAKE, 5, NULL, NULL, 0)));
  say("wait %ld", (long)finish(thread));
}

enum { U32 = 2 };
struct mixed {
  struct futex_waitv list[3];
  _Atomic uint32_t own[2], *shared;
  int64_t timeout_ms;
};
static void *wait_for_any(void *argument) {
  struct mixed *m = argument;
  struct timespec until = timespec_of(now_ns(CLOCK_MONOTONIC) + m->timeout_ms * 1000000);
  return (void *)(intptr_t)(syscall(SYS_futex_waitv, m->list, 3, 0, &until, CLOCK_MONOTONIC) * 1000 - errno);
}
static struct mixed mixed_words(void) {
  struct mixed m = {.shared = shared_memory(4096), .timeout_ms = 20000};
  return m;
}
static void lay_out(struct mixed *m) {
  m->list[0] = (struct futex_waitv){.uaddr = (uintptr_t)&m->own[0], .flags = U32 | FUTEX_PRIVATE_FLAG};
  m->list[1] = (struct futex_waitv){.uaddr = (uintptr_t)m->shared, .flags = U32};
  m->list[2] = (struct futex_waitv){.uaddr = (uintptr_t)&m->own[1], .flags = U32};
}
CASE(own_and_shared_words_at_once) {
  struct mixed m = mixed_words();
  lay_out(&m);
  for (int which = 0; which < 3; which++) {
    _Atomic uint32_t *word = (void *)m.list[which].uaddr;
    int flag = which == 0 ? PRIVATE : 0;
    errno = 0;
    pthread_t thread = start(wait_for_any, &m);
    wait_until(waiters(word, flag) == 1);
    say("wake %s", result(futex(word, FUTEX_WAKE | flag, 5, NULL, NULL, 0)));
    say("woken by %ld", (long)finish(thread) / 1000);
    for (int i = 0; i < 3; i++)
      must(waiters((void *)m.list[i].uaddr, i == 0 ? PRIVATE : 0) == 0);
  }
  m.own[1] = 1;
  say("other value %s", result(syscall(SYS_futex_waitv, m.list, 3, 0, NULL, 0)));
  m.own[1] = 0;
  *m.shared = 1;
  say("other shared value %s", result(syscall(SYS_futex_waitv, m.list, 3, 0, NULL, 0)));
  *m.shared = 0;
  m.timeout_ms = 5;
  say("too late %s", (long)wait_for_any(&m) == -1000 - ETIMEDOUT ? "as said" : "NOT as said");
  must(waiters(&m.own[0], PRIVATE) == 0);
}

/* Very many wake-ups of both kinds, at the very moment when the wait begins. */
static void *wake_all_the_time(void *argument) {
  struct mixed *m = argument;
  for (uint32_t i = 1; i <= 600; i++) {
    _Atomic uint32_t *word = (void *)m->list[i % 3].uaddr;
    atomic_store(word, i);
    futex(word, FUTEX_WAKE | (i % 3 == 0 ? PRIVATE : 0), 1, NULL, NULL, 0);
    wait_until(atomic_load(&m->shared[1]) == i);
  }
  return NULL;
}
CASE(no_wake_up_is_lost) {
  struct mixed m = mixed_words();
  lay_out(&m);
  pthread_t thread = start(wake_all_the_time, &m);
  uint32_t seen = 0;
  while (seen < 600) {
    uint32_t newest = 0;
    for (int i = 0; i < 3; i++) {
      m.list[i].val = *(_Atomic uint32_t *)m.list[i].uaddr;
      if (m.list[i].val > newest) newest = m.list[i].val;
    }
    if (newest == seen) syscall(SYS_futex_waitv, m.list, 3, 0, NULL, 0);
    else atomic_store(&m.shared[1], seen = newest);
  }
  finish(thread);
  say("seen %u", seen);
}
