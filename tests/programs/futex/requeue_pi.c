/* FUTEX_WAIT_REQUEUE_PI and FUTEX_CMP_REQUEUE_PI. */
#include "futex.h"

static _Atomic uint32_t cond, lock_word;

static long lock(void) { return futex(&lock_word, FUTEX_LOCK_PI | PRIVATE, 0, NULL, NULL, 0); }
static long unlock(void) { return futex(&lock_word, FUTEX_UNLOCK_PI | PRIVATE, 0, NULL, NULL, 0); }

static long wait_requeue(uint32_t expected, const struct timespec *until) {
  return futex(&cond, FUTEX_WAIT_REQUEUE_PI | PRIVATE, expected, until, &lock_word, 0);
}

static long requeue(int wake, int move, uint32_t expected) {
  return futex(&cond, FUTEX_CMP_REQUEUE_PI | PRIVATE, wake, (void *)(intptr_t)move, &lock_word, expected);
}

static void *wait_and_note(void *who) {
  long answer = wait_requeue(cond, NULL);
  if (answer == 0) must((lock_word & FUTEX_TID_MASK) == (uint32_t)gettid());
  note_return((int)(intptr_t)who, answer);
  if (answer == 0) must(unlock() == 0);
  return NULL;
}

/* Such waiters cannot be counted by a requeue, so each gets the time to reach its wait. */
static void start_waiters(pthread_t *threads, int count) {
  for (int i = 0; i < count; i++) {
    threads[i] = start(wait_and_note, (void *)(intptr_t)i);
    settle();
  }
}

CASE(refused) {
  static const int counts[][2] = {{0, 1}, {2, 1}, {-1, 1}, {1, -1}, {1, 0}, {1, INT_MAX}};
  for (int i = 0; i < COUNT(counts); i++)
    say("counts %d %d: %s", counts[i][0], counts[i][1], result(requeue(counts[i][0], counts[i][1], cond)));
  say("mismatch %s", result(requeue(1, 1, cond + 1)));
  say("wait, mismatch %s", result(wait_requeue(cond + 1, NULL)));
  say("wait, same words %s", result(futex(&cond, FUTEX_WAIT_REQUEUE_PI | PRIVATE, cond, NULL, &cond, 0)));
  say("requeue, same words %s",
      result(futex(&cond, FUTEX_CMP_REQUEUE_PI | PRIVATE, 1, (void *)1, &cond, cond)));
  struct timespec bad = {0, -1};
  say("bad time %s", result(wait_requeue(cond, &bad)));
}

CASE(timeouts) {
  for (int ms = -10; ms <= 20; ms += 10) {
    struct timespec until = timespec_of(now_ns(CLOCK_MONOTONIC) + ms * INT64_C(1000000));
    say("monotonic %d ms: %s", ms, result(wait_requeue(cond, &until)));
    must(now_ns(CLOCK_MONOTONIC) >= until.tv_sec * INT64_C(1000000000) + until.tv_nsec);
    until = timespec_of(now_ns(CLOCK_REALTIME) + ms * INT64_C(1000000));
    say("realtime %d ms: %s", ms,
        result(futex(&cond, FUTEX_WAIT_REQUEUE_PI | FUTEX_CLOCK_REALTIME | PRIVATE, cond, &until, &lock_word, 0)));
  }
}

CASE(lock_is_free) {
  pthread_t threads[3];
  start_waiters(threads, 3);
  say("signal %s", result(requeue(1, 0, cond)));
  wait_until(returned == 1);
  finish(threads[0]);
  say_returns("returned");
  say("broadcast %s", result(requeue(1, INT_MAX, cond)));
  finish(threads[1]);
  finish(threads[2]);
  say_returns("returned");
  say("word %s", lock_word == 0 ? "free" : "not free");
}

CASE(lock_is_mine) {
  pthread_t threads[4];
  must(lock() == 0);
  start_waiters(threads, 4);
  say("broadcast %s", result(requeue(1, INT_MAX, cond)));
  settle();
  say("returned before the unlock %d", returned);
  say("word %s waiters", lock_word & FUTEX_WAITERS ? "with" : "without");
  say("unlock %s", result(unlock()));
  for (int i = 0; i < 4; i++) finish(threads[i]);
  say_returns("returned");
  say("word %s", lock_word == 0 ? "free" : "not free");
}

static void *wait_until_late(void *clock_ms) {
  struct timespec until = timespec_of(now_ns(CLOCK_MONOTONIC) + (intptr_t)clock_ms * INT64_C(1000000));
  long answer = wait_requeue(cond, &until);
  must(now_ns(CLOCK_MONOTONIC) >= until.tv_sec * INT64_C(1000000000) + until.tv_nsec);
  note_return(0, answer);
  return NULL;
}

/* The timeout holds on the lock too. */
CASE(timeout_after_the_move) {
  must(lock() == 0);
  pthread_t thread = start(wait_until_late, (void *)300);
  settle();
  say("requeue %s", result(requeue(1, 1, cond)));
  finish(thread);
  say_returns("returned");
  say("unlock %s", result(unlock()));
  say("word %s", lock_word == 0 ? "free" : "not free");
}

static void on_signal(int signal) { (void)signal; }

CASE(signal_before_the_move) {
  struct sigaction action = {.sa_handler = on_signal};
  sigaction(SIGUSR1, &action, NULL);
  pthread_t thread = start(wait_and_note, NULL);
  settle();
  pthread_kill(thread, SIGUSR1);
  settle();
  say("returned %d", returned);
  if (returned == 0) say("requeue %s", result(requeue(1, 1, cond)));
  finish(thread);
  say_returns("returned");
}

/* A waiter of one kind is not to be woken by a call of the other. */
CASE(kinds_do_not_mix) {
  struct waiter plain;
  add_waiter(&plain, 7, &cond, FUTEX_WAIT | PRIVATE, 0);
  say("requeue_pi of a plain waiter %s", result(requeue(1, 1, cond)));
  say("plain wake %s", result(futex_wake(&cond, 1)));
  finish(plain.thread);
  returned = 0;
  pthread_t thread = start(wait_and_note, NULL);
  settle();
  say("plain wake of a requeue_pi waiter %s", result(futex_wake(&cond, 1)));
  say("plain requeue of it %s", result(futex(&cond, FUTEX_REQUEUE | PRIVATE, 0, (void *)1, &lock_word, 0)));
  static _Atomic uint32_t wrong;
  say("requeue_pi to another word %s",
      result(futex(&cond, FUTEX_CMP_REQUEUE_PI | PRIVATE, 1, (void *)1, &wrong, cond)));
  say("requeue_pi %s", result(requeue(1, 1, cond)));
  finish(thread);
  say_returns("returned");
}
