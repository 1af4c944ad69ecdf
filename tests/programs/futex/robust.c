/* Robust lists: what a thread that ends leaves in its locks. */
#include "futex.h"
#include <stddef.h>

struct entry {
  struct robust_list list;
  _Atomic uint32_t word;
};

#define OFFSET ((long)offsetof(struct entry, word))

static struct robust_list_head head;
static struct entry entries[3000];
static int prepared;

static uint32_t me(void) { return (uint32_t)gettid(); }

static const char *shown(uint32_t value) {
  static char text[64];
  snprintf(text, sizeof text, "%s%s%s", value & FUTEX_TID_MASK ? "owned" : "free",
           value & FUTEX_WAITERS ? ", waiters" : "", value & FUTEX_OWNER_DIED ? ", owner died" : "");
  return text;
}

static void register_head(void) {
  head.futex_offset = OFFSET;
  must(syscall(SYS_set_robust_list, &head, sizeof head) == 0);
}

/* A list of the first `count` entries. */
static void link_up(int count) {
  struct robust_list *next = &head.list;
  head.list_op_pending = NULL;
  for (int i = count - 1; i >= 0; i--) {
    entries[i].list.next = next;
    next = &entries[i].list;
  }
  head.list.next = next;
  prepared = count;
}

static void run_and_end(void *(*body)(void *)) { finish(start(body, NULL)); }

static void *own_all(void *unused) {
  (void)unused;
  register_head();
  link_up(prepared);
  for (int i = 0; i < prepared; i++) entries[i].word = me();
  return NULL;
}

CASE(three_owned) {
  prepared = 3;
  run_and_end(own_all);
  for (int i = 0; i < 3; i++) say("word %s", shown(entries[i].word));
}

/* Linux walks 2048 entries and no more. */
CASE(longer_than_the_limit) {
  int died = 0, owned = 0;
  prepared = 3000;
  run_and_end(own_all);
  for (int i = 0; i < 3000; i++) {
    died += entries[i].word == FUTEX_OWNER_DIED;
    owned += (entries[i].word & FUTEX_TID_MASK) != 0;
    entries[i].word = 0;
  }
  say("marked %d, left %d", died, owned);
}

static void *own_every_kind(void *unused) {
  (void)unused;
  register_head();
  link_up(5);
  entries[0].word = me() + 1;
  entries[1].word = me() | FUTEX_WAITERS;
  entries[2].word = 0;
  entries[3].word = FUTEX_OWNER_DIED;
  entries[4].word = me() | FUTEX_OWNER_DIED;
  return NULL;
}

CASE(every_kind_of_word) {
  run_and_end(own_every_kind);
  for (int i = 0; i < 5; i++) say("word %d %s", i, shown(entries[i].word));
}

static void *own_pending(void *kind_pointer) {
  intptr_t kind = (intptr_t)kind_pointer;
  register_head();
  link_up(1);
  entries[0].word = me();
  entries[1].word = kind == 0 ? me() : kind == 1 ? 0 : kind == 2 ? me() + 1 : FUTEX_WAITERS;
  head.list_op_pending = &entries[1].list;
  return NULL;
}

CASE(pending_operation) {
  for (intptr_t kind = 0; kind < 4; kind++) {
    finish(start(own_pending, (void *)kind));
    say("kind %ld: listed %s", (long)kind, shown(entries[0].word));
    say("kind %ld: pending %s", (long)kind, shown(entries[1].word));
  }
}

static void *own_pending_and_listed(void *unused) {
  (void)unused;
  register_head();
  link_up(2);
  entries[0].word = entries[1].word = me();
  head.list_op_pending = &entries[1].list;
  return NULL;
}

CASE(pending_is_listed_too) {
  run_and_end(own_pending_and_listed);
  say("first %s", shown(entries[0].word));
  say("second %s", shown(entries[1].word));
}

static void *own_ring(void *unused) {
  (void)unused;
  register_head();
  link_up(3);
  entries[2].list.next = &entries[0].list;
  for (int i = 0; i < 3; i++) entries[i].word = me();
  return NULL;
}

CASE(ring_without_end) {
  run_and_end(own_ring);
  for (int i = 0; i < 3; i++) say("word %s", shown(entries[i].word));
}

static void *bad_place;

static void *own_with_bad_link(void *unused) {
  (void)unused;
  register_head();
  link_up(3);
  entries[1].list.next = bad_place;
  for (int i = 0; i < 3; i++) entries[i].word = me();
  return NULL;
}

CASE(bad_links) {
  void *places[] = {NULL, (void *)8, (void *)0xffff888000000000, (void *)0x1234800000000000, &entries[2].list};
  for (int i = 0; i < COUNT(places); i++) {
    bad_place = places[i];
    run_and_end(own_with_bad_link);
    for (int j = 0; j < 3; j++) say("place %d: word %s", i, shown(entries[j].word));
  }
}

static void *register_bad_head(void *place) {
  must(syscall(SYS_set_robust_list, place, sizeof head) == 0);
  return NULL;
}

CASE(bad_heads) {
  void *places[] = {NULL, (void *)8, (void *)0xffff888000000000, (void *)-1L};
  for (int i = 0; i < COUNT(places); i++) finish(start(register_bad_head, places[i]));
  say("all ended");
}

static void *own_at_bad_offset(void *offset) {
  register_head();
  link_up(1);
  head.futex_offset = (long)(intptr_t)offset;
  entries[0].word = me();
  return NULL;
}

CASE(bad_offsets) {
  static const intptr_t offsets[] = {0x7000000000000000, -0x7000000000000000, 1, 9};
  for (int i = 0; i < COUNT(offsets); i++) {
    finish(start(own_at_bad_offset, (void *)offsets[i]));
    say("offset %d: word %s", i, shown(entries[0].word));
  }
}

static struct entry *read_only_entry;

static void *own_read_only(void *unused) {
  (void)unused;
  register_head();
  link_up(2);
  entries[0].word = entries[1].word = me();
  read_only_entry->word = me();
  read_only_entry->list.next = &entries[1].list;
  entries[0].list.next = &read_only_entry->list;
  need(mprotect(read_only_entry, 4096, PROT_READ) == 0);
  return NULL;
}

CASE(read_only_word) {
  read_only_entry = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  run_and_end(own_read_only);
  say("first %s", shown(entries[0].word));
  say("read-only %s", shown(read_only_entry->word));
  say("last %s", shown(entries[1].word));
}

static atomic_int stage;

static void *own_and_wait(void *unused) {
  (void)unused;
  register_head();
  link_up(2);
  entries[0].word = me() | FUTEX_WAITERS;
  entries[1].word = me();
  stage = 1;
  wait_until(stage == 2);
  return NULL;
}

static void waiters_at_death(int flag) {
  struct waiter list[3];
  pthread_t owner = start(own_and_wait, NULL);
  wait_until(stage == 1);
  for (int i = 0; i < 3; i++) add_waiter(&list[i], i, &entries[i / 2].word, FUTEX_WAIT | flag, 0);
  stage = 2;
  finish(owner);
  settle();
  say("returned %d", returned);
  for (int i = 0; i < 2; i++) {
    say("word %s", shown(entries[i].word));
    say("left %s", result(futex(&entries[i].word, FUTEX_WAKE | flag, 5, NULL, NULL, 0)));
  }
  join_waiters(list, 3);
  returned = stage = 0;
}

/* One waiter is woken, and only where the word says that there is one. Linux does it as for a shared word,
 * which private waiters never notice. */
CASE(shared_waiters_are_woken) { waiters_at_death(0); }
CASE(private_waiters_are_not) { waiters_at_death(PRIVATE); }

static void *own_pi(void *unused) {
  (void)unused;
  register_head();
  link_up(2);
  head.list.next = (void *)((uintptr_t)&entries[0].list | 1);
  entries[0].list.next = (void *)((uintptr_t)&entries[1].list | 1);
  must(futex(&entries[0].word, FUTEX_LOCK_PI, 0, NULL, NULL, 0) == 0);
  must(futex(&entries[1].word, FUTEX_LOCK_PI, 0, NULL, NULL, 0) == 0);
  stage = 1;
  wait_until(stage == 2);
  return NULL;
}

static void *wait_pi(void *unused) {
  (void)unused;
  long answer = futex(&entries[0].word, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
  note_return(0, answer);
  say("waiter: %s", (entries[0].word & FUTEX_TID_MASK) == me() ? "mine" : "not mine");
  say("waiter: %s", shown(entries[0].word));
  say("waiter: unlock %s", result(futex(&entries[0].word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0)));
  return NULL;
}

CASE(pi_entries) {
  entries[0].word = entries[1].word = 0;
  pthread_t owner = start(own_pi, NULL);
  wait_until(stage == 1);
  pthread_t waiter = start(wait_pi, NULL);
  wait_until(entries[0].word & FUTEX_WAITERS);
  settle();
  stage = 2;
  finish(owner);
  finish(waiter);
  say_returns("returned");
  say("waited for %s", shown(entries[0].word));
  say("not waited for %s", shown(entries[1].word));
  stage = 0;
}

CASE(set_and_get) {
  struct robust_list_head *got = NULL;
  size_t size = 0;
  say("bad size %s", result(syscall(SYS_set_robust_list, &head, sizeof head - 1)));
  say("bad size %s", result(syscall(SYS_set_robust_list, &head, 0)));
  must(syscall(SYS_get_robust_list, 0, &got, &size) == 0);
  struct robust_list_head *of_libc = got;
  say("get: size %zu, %s", size, got ? "set" : "not set");
  must(syscall(SYS_set_robust_list, &head, sizeof head) == 0);
  must(syscall(SYS_get_robust_list, gettid(), &got, &size) == 0);
  say("the same %d", got == &head);
  must(syscall(SYS_set_robust_list, of_libc, sizeof head) == 0);
  say("bad place %s", result(syscall(SYS_get_robust_list, 0, (void *)8, &size)));
  say("bad place %s", result(syscall(SYS_get_robust_list, 0, &got, (void *)8)));
  say("no such thread %s", result(syscall(SYS_get_robust_list, 0x3ffffff0, &got, &size)));
  say("negative %s", result(syscall(SYS_get_robust_list, -1, &got, &size)));
}

static _Atomic pid_t other_tid;

static void *show_tid(void *unused) {
  (void)unused;
  register_head();
  other_tid = gettid();
  wait_until(stage == 2);
  link_up(0);
  return NULL;
}

CASE(get_of_another) {
  struct robust_list_head *got = NULL;
  size_t size = 0;
  link_up(0);
  pthread_t thread = start(show_tid, NULL);
  wait_until(other_tid);
  say("get %s", result(syscall(SYS_get_robust_list, other_tid, &got, &size)));
  say("the same %d, size %zu", got == &head, size);
  stage = 2;
  finish(thread);
  stage = 0;
}

/* The list of a process that is killed. */
CASE(killed_process) {
  struct entry *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid_t child = fork();
  if (child == 0) {
    register_head();
    head.list.next = &shared->list;
    shared->list.next = &head.list;
    shared->word = me() | FUTEX_WAITERS;
    for (;;) pause();
  }
  struct waiter waiter;
  wait_until(shared->word != 0);
  add_waiter(&waiter, 0, &shared->word, FUTEX_WAIT, 0);
  kill(child, SIGKILL);
  int status;
  waitpid(child, &status, 0);
  finish(waiter.thread);
  say("child %s", ended(status));
  say_returns("returned");
  say("word %s", shown(shared->word));
}
