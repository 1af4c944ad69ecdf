/* Locks with priority inheritance: words, answers, hand-over. What inheritance does to the order of running is
 * in pi_order. */
#include "futex.h"

static _Atomic uint32_t word;

static uint32_t me(void) { return (uint32_t)gettid(); }

/* A lock word without numbers that differ from run to run. */
static const char *shown(uint32_t value) {
  static char text[64];
  uint32_t tid = value & FUTEX_TID_MASK;
  snprintf(text, sizeof text, "%s%s%s", tid == 0 ? "free" : tid == me() ? "mine" : "another's",
           value & FUTEX_WAITERS ? ", waiters" : "", value & FUTEX_OWNER_DIED ? ", owner died" : "");
  return text;
}

static long lock(int op) { return futex(&word, op | PRIVATE, 0, NULL, NULL, 0); }
static long unlock(void) { return futex(&word, FUTEX_UNLOCK_PI | PRIVATE, 0, NULL, NULL, 0); }

CASE(free_word) {
  static const int ops[] = {FUTEX_LOCK_PI, FUTEX_LOCK_PI2, FUTEX_TRYLOCK_PI};
  for (int i = 0; i < COUNT(ops); i++) {
    word = 0;
    say("lock %s", result(lock(ops[i])));
    say("word %s", shown(word));
    for (int j = 0; j < COUNT(ops); j++) say("again %s", result(lock(ops[j])));
    say("word %s", shown(word));
    say("unlock %s", result(unlock()));
    say("word %s", shown(word));
  }
}

CASE(word_locked_by_user_code) {
  word = me();
  say("lock %s", result(lock(FUTEX_LOCK_PI)));
  say("trylock %s", result(lock(FUTEX_TRYLOCK_PI)));
  say("word %s", shown(word));
  say("unlock %s", result(unlock()));
  say("word %s", shown(word));
}

CASE(unlock_what_is_not_mine) {
  word = 0;
  say("free %s", result(unlock()));
  word = me() + 1000000;
  say("another's %s", result(unlock()));
  word = FUTEX_WAITERS;
  say("waiters only %s", result(unlock()));
  word = FUTEX_OWNER_DIED;
  say("owner died %s", result(unlock()));
}

/* Tids above the host's highest: nobody has them, natively or not. */
CASE(owner_does_not_exist) {
  static const uint32_t owners[] = {0x3ffffff0, 0x3fffffff};
  static const uint32_t flags[] = {0, FUTEX_WAITERS, FUTEX_OWNER_DIED, FUTEX_WAITERS | FUTEX_OWNER_DIED};
  for (int i = 0; i < COUNT(owners); i++) {
    for (int j = 0; j < COUNT(flags); j++) {
      word = owners[i] | flags[j];
      say("owner %d flags %d: lock %s", i, j, result(lock(FUTEX_LOCK_PI)));
      say("owner %d flags %d: word %s", i, j, shown(word));
      word = owners[i] | flags[j];
      say("owner %d flags %d: trylock %s", i, j, result(lock(FUTEX_TRYLOCK_PI)));
    }
  }
}

CASE(dead_owner_bit) {
  word = FUTEX_OWNER_DIED;
  say("lock %s", result(lock(FUTEX_LOCK_PI)));
  say("word %s", shown(word));
  say("unlock %s", result(unlock()));
  say("word %s", shown(word));
  word = FUTEX_WAITERS;
  say("lock of a free word with waiters bit %s", result(lock(FUTEX_LOCK_PI)));
  say("word %s", shown(word));
  say("unlock %s", result(unlock()));
  say("word %s", shown(word));
}

static void *exits(void *tid) {
  *(_Atomic uint32_t *)tid = me();
  return NULL;
}

CASE(owner_has_exited) {
  _Atomic uint32_t tid;
  finish(start(exits, &tid));
  settle();
  word = tid;
  say("lock %s", result(lock(FUTEX_LOCK_PI)));
  word = tid | FUTEX_OWNER_DIED;
  say("lock, owner died bit %s", result(lock(FUTEX_LOCK_PI)));
  say("word %s", shown(word));
}

static atomic_int stage;

static void *hold(void *unused) {
  (void)unused;
  say("holder: lock %s", result(lock(FUTEX_LOCK_PI)));
  stage = 1;
  wait_until(stage == 2);
  say("holder: unlock %s", result(unlock()));
  return NULL;
}

static void refused_while_held(int op, clockid_t clock, int flag) {
  for (int ms = -10; ms <= 20; ms += 10) {
    struct timespec until = timespec_of(now_ns(clock) + ms * INT64_C(1000000));
    say("op %d, %d ms: %s", op, ms, result(futex(&word, op | flag | PRIVATE, 0, &until, NULL, 0)));
    must(now_ns(clock) >= until.tv_sec * INT64_C(1000000000) + until.tv_nsec);
  }
}

CASE(held_by_another) {
  word = 0;
  pthread_t holder = start(hold, NULL);
  wait_until(stage == 1);
  say("trylock %s", result(lock(FUTEX_TRYLOCK_PI)));
  say("unlock %s", result(unlock()));
  refused_while_held(FUTEX_LOCK_PI, CLOCK_REALTIME, 0);
  refused_while_held(FUTEX_LOCK_PI2, CLOCK_MONOTONIC, 0);
  refused_while_held(FUTEX_LOCK_PI2, CLOCK_REALTIME, FUTEX_CLOCK_REALTIME);
  struct timespec bad = {0, 1000000000};
  say("bad time %s", result(futex(&word, FUTEX_LOCK_PI | PRIVATE, 0, &bad, NULL, 0)));
  say("plain wait %s", result(futex_wait(&word, 0)));
  say("word %s", shown(word));
  stage = 2;
  finish(holder);
  stage = 0;
}

static void *lock_and_note(void *who) {
  long answer = lock(FUTEX_LOCK_PI);
  note_return((int)(intptr_t)who, answer);
  must((word & FUTEX_TID_MASK) == me());
  must(unlock() == 0);
  return NULL;
}

CASE(hand_over_in_order) {
  enum { WAITERS = 5 };
  pthread_t threads[WAITERS];
  word = 0;
  say("lock %s", result(lock(FUTEX_LOCK_PI)));
  for (int i = 0; i < WAITERS; i++) {
    threads[i] = start(lock_and_note, (void *)(intptr_t)i);
    settle();
  }
  say("word %s", shown(word));
  say("unlock %s", result(unlock()));
  for (int i = 0; i < WAITERS; i++) finish(threads[i]);
  say_returns("order");
  say("word %s", shown(word));
}

/* No thread may take the lock past the one that it was handed to. */
CASE(no_stealing) {
  word = 0;
  lock(FUTEX_LOCK_PI);
  pthread_t thread = start(lock_and_note, NULL);
  wait_until(word & FUTEX_WAITERS);
  settle();
  say("unlock %s", result(unlock()));
  uint32_t expected = 0;
  if (atomic_compare_exchange_strong(&word, &expected, me())) {
    must(returned == 1);
    must(unlock() == 0);
  }
  finish(thread);
  returned = 0;
  say("word %s", shown(word));
}

static _Atomic uint32_t other;

static void *crossed(void *unused) {
  (void)unused;
  futex(&other, FUTEX_LOCK_PI | PRIVATE, 0, NULL, NULL, 0);
  stage = 1;
  say("waits for the first: %s", result(lock(FUTEX_LOCK_PI)));
  must(unlock() == 0);
  say("unlock the second: %s", result(futex(&other, FUTEX_UNLOCK_PI | PRIVATE, 0, NULL, NULL, 0)));
  return NULL;
}

CASE(deadlock_is_found) {
  word = other = 0;
  lock(FUTEX_LOCK_PI);
  pthread_t thread = start(crossed, NULL);
  wait_until(stage == 1);
  wait_until(word & FUTEX_WAITERS);
  settle();
  say("waits for the second: %s", result(futex(&other, FUTEX_LOCK_PI | PRIVATE, 0, NULL, NULL, 0)));
  /* Said when the other is done, which has the lock at once and speaks, too. */
  const char *unlocked = result(unlock());
  finish(thread);
  say("unlock the first: %s", unlocked);
  stage = 0;
}

static atomic_int depth;
static _Atomic uint32_t ring[6];

static void *link_of_ring(void *index_pointer) {
  int index = (int)(intptr_t)index_pointer;
  futex(&ring[index], FUTEX_LOCK_PI | PRIVATE, 0, NULL, NULL, 0);
  depth++;
  wait_until(depth >= COUNT(ring));
  must(futex(&ring[index - 1], FUTEX_LOCK_PI | PRIVATE, 0, NULL, NULL, 0) == 0);
  must(futex(&ring[index - 1], FUTEX_UNLOCK_PI | PRIVATE, 0, NULL, NULL, 0) == 0);
  must(futex(&ring[index], FUTEX_UNLOCK_PI | PRIVATE, 0, NULL, NULL, 0) == 0);
  return NULL;
}

CASE(deadlock_over_six_locks) {
  pthread_t threads[COUNT(ring)];
  futex(&ring[0], FUTEX_LOCK_PI | PRIVATE, 0, NULL, NULL, 0);
  depth = 1;
  for (int i = 1; i < COUNT(ring); i++) threads[i] = start(link_of_ring, (void *)(intptr_t)i);
  for (int i = 0; i < COUNT(ring) - 1; i++) wait_until(ring[i] & FUTEX_WAITERS);
  settle();
  say("last link: %s", result(futex(&ring[COUNT(ring) - 1], FUTEX_LOCK_PI | PRIVATE, 0, NULL, NULL, 0)));
  say("unlock %s", result(futex(&ring[0], FUTEX_UNLOCK_PI | PRIVATE, 0, NULL, NULL, 0)));
  for (int i = 1; i < COUNT(ring); i++) finish(threads[i]);
  for (int i = 0; i < COUNT(ring); i++) say("word %d %s", i, shown(ring[i]));
}

static void on_signal(int signal) { (void)signal; }

/* Whatever the flags of the handler, a wait for such a lock goes on. */
CASE(signals_do_not_end_the_wait) {
  word = 0;
  lock(FUTEX_LOCK_PI);
  for (int flags = 0; flags <= SA_RESTART; flags += SA_RESTART) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
    sigaction(SIGUSR1, &action, NULL);
    pthread_t thread = start(lock_and_note, NULL);
    settle();
    pthread_kill(thread, SIGUSR1);
    settle();
    must(unlock() == 0);
    finish(thread);
    say_returns(flags ? "with SA_RESTART" : "without");
    must(lock(FUTEX_LOCK_PI) == 0);
  }
  unlock();
}

CASE(mixed_with_plain_futexes) {
  struct waiter waiter;
  word = me();
  add_waiter(&waiter, 0, &word, FUTEX_WAIT | PRIVATE, 0);
  say("lock in the kernel over a plain waiter: %s", result(lock(FUTEX_LOCK_PI)));
  say("unlock over a plain waiter: %s", result(unlock()));
  say("plain wake: %s", result(futex_wake(&word, 1)));
  finish(waiter.thread);
  returned = 0;
  word = 0;
  lock(FUTEX_LOCK_PI);
  pthread_t thread = start(lock_and_note, NULL);
  wait_until(word & FUTEX_WAITERS);
  settle();
  say("plain wake over a waiter of the lock: %s", result(futex_wake(&word, 1)));
  say("requeue over a waiter of the lock: %s",
      result(futex(&word, FUTEX_CMP_REQUEUE | PRIVATE, 1, (void *)1, &other, word)));
  say("unlock %s", result(unlock()));
  finish(thread);
  say_returns("returned");
}

static int shared_count;

static void *count_up(void *unused) {
  (void)unused;
  for (int i = 0; i < 3000; i++) {
    uint32_t expected = 0;
    if (!atomic_compare_exchange_strong(&word, &expected, me())) must(lock(i % 2 ? FUTEX_LOCK_PI : FUTEX_LOCK_PI2) == 0);
    int old = shared_count;
    if (i % 16 == 0) sched_yield();
    shared_count = old + 1;
    expected = me();
    if (!atomic_compare_exchange_strong(&word, &expected, 0)) must(unlock() == 0);
  }
  return NULL;
}

CASE(contended) {
  pthread_t threads[6];
  word = 0;
  for (int i = 0; i < COUNT(threads); i++) threads[i] = start(count_up, NULL);
  for (int i = 0; i < COUNT(threads); i++) finish(threads[i]);
  say("count %d, word %s", shared_count, shown(word));
}
