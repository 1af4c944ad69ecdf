/* FUTEX_WAIT, FUTEX_WAKE and their BITSET forms. */
#include "futex.h"

static _Atomic uint32_t word;

CASE(mismatch) {
  word = 7;
  say("wait %s", result(futex_wait(&word, 8)));
  say("wait, shared %s", result(futex(&word, FUTEX_WAIT, 8, NULL, NULL, 0)));
  say("wait_bitset %s", result(futex(&word, FUTEX_WAIT_BITSET | PRIVATE, 8, NULL, NULL, 1)));
}

CASE(relative_timeouts) {
  for (int ms = 0; ms <= 40; ms += 20) {
    struct timespec timeout = timespec_of(ms * INT64_C(1000000));
    int64_t before = now_ns(CLOCK_MONOTONIC);
    say("%d ms: %s", ms, result(futex(&word, FUTEX_WAIT | PRIVATE, word, &timeout, NULL, 0)));
    must(now_ns(CLOCK_MONOTONIC) - before >= ms * INT64_C(1000000));
  }
}

CASE(bad_timeouts) {
  static const struct timespec bad[] = {{0, -1}, {-1, 0}, {0, 1000000000}, {-1, -1}, {0, LONG_MAX}};
  for (int i = 0; i < COUNT(bad); i++) {
    say("wait %d: %s", i, result(futex(&word, FUTEX_WAIT | PRIVATE, word, &bad[i], NULL, 0)));
    say("wait_bitset %d: %s", i, result(futex(&word, FUTEX_WAIT_BITSET | PRIVATE, word, &bad[i], NULL, 1)));
  }
  say("bad pointer %s", result(futex(&word, FUTEX_WAIT | PRIVATE, word, (void *)8, NULL, 0)));
  say("bad pointer and mismatch %s", result(futex(&word, FUTEX_WAIT | PRIVATE, word + 1, (void *)8, NULL, 0)));
  say("bad time and mismatch %s", result(futex(&word, FUTEX_WAIT | PRIVATE, word + 1, &bad[0], NULL, 0)));
  say("wake looks at no timeout: %s", result(futex(&word, FUTEX_WAKE | PRIVATE, 1, (void *)8, NULL, 0)));
}

static void absolute(clockid_t clock, int op) {
  for (int ms = -20; ms <= 40; ms += 20) {
    struct timespec until = timespec_of(now_ns(clock) + ms * INT64_C(1000000));
    say("%d ms: %s", ms, result(futex(&word, op | PRIVATE, word, &until, NULL, ~0u)));
    must(now_ns(clock) >= until.tv_sec * INT64_C(1000000000) + until.tv_nsec);
  }
}

CASE(absolute_monotonic) { absolute(CLOCK_MONOTONIC, FUTEX_WAIT_BITSET); }
CASE(absolute_realtime) { absolute(CLOCK_REALTIME, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME); }

CASE(far_timeouts) {
  struct timespec far = {.tv_sec = INT64_MAX, .tv_nsec = 999999999};
  word = 0;
  say("mismatch %s", result(futex(&word, FUTEX_WAIT | PRIVATE, 1, &far, NULL, 0)));
  struct waiter waiter = {.who = 0};
  add_waiter(&waiter, 0, &word, FUTEX_WAIT | PRIVATE, 0);
  say("wake %s", result(futex_wake(&word, 1)));
  finish(waiter.thread);
  say_returns("returned");
}

CASE(wake_counts) {
  enum { WAITERS = 12 };
  struct waiter list[WAITERS];
  static const int counts[] = {1, 2, 3, INT_MAX, 1};
  say("nobody waits: %s", result(futex_wake(&word, 5)));
  add_waiters(list, WAITERS, &word);
  int left = WAITERS;
  for (int i = 0; i < COUNT(counts); i++) {
    long woken = futex_wake(&word, counts[i]);
    left -= (int)woken;
    wait_until(returned == WAITERS - left);
    say("wake %d: %s, left %ld", counts[i], result(woken), waiters(&word, PRIVATE));
  }
  join_waiters(list, WAITERS);
  returned = 0;
}

/* Linux wakes one for a count of 0 or less. */
CASE(wake_zero_and_negative) {
  struct waiter list[4];
  add_waiters(list, 4, &word);
  say("wake 0: %s", result(futex_wake(&word, 0)));
  say("wake -1: %s", result(futex_wake(&word, -1)));
  say("wake INT_MIN: %s", result(futex_wake(&word, INT_MIN)));
  futex_wake(&word, INT_MAX);
  join_waiters(list, 4);
  returned = 0;
}

CASE(wake_order) {
  enum { WAITERS = 20 };
  struct waiter list[WAITERS];
  add_waiters(list, WAITERS, &word);
  for (int i = 0; i < WAITERS; i++) {
    must(futex_wake(&word, 1) == 1);
    wait_until(returned == i + 1);
  }
  join_waiters(list, WAITERS);
  say_returns("first in, first out");
}

/* More than a kernel handles in one go. */
CASE(wake_500) {
  enum { WAITERS = 500 };
  static struct waiter list[WAITERS];
  for (int i = 0; i < WAITERS; i++) {
    list[i] = (struct waiter){.who = i, .op = FUTEX_WAIT | PRIVATE, .word = &word, .value = word};
    list[i].thread = start(wait_once, &list[i]);
    if (i % 250 == 249) {
      wait_until(waiters(&word, PRIVATE) == 250);
      say("woken %s", result(futex_wake(&word, INT_MAX)));
      wait_until(returned == 250);
      returned = 0;
    }
  }
  join_waiters(list, WAITERS);
}

CASE(bitset) {
  struct waiter list[6];
  static const uint32_t bits[] = {1, 2, 3, 0x80000000, ~0u, 1};
  for (int i = 0; i < COUNT(bits); i++) add_waiter(&list[i], i, &word, FUTEX_WAIT_BITSET | PRIVATE, bits[i]);
  say("wait with no bit %s", result(futex(&word, FUTEX_WAIT_BITSET | PRIVATE, word, NULL, NULL, 0)));
  say("wake with no bit %s", result(futex(&word, FUTEX_WAKE_BITSET | PRIVATE, 1, NULL, NULL, 0)));
  static const uint32_t wake_bits[] = {4, 2, 0x80000000, 1};
  int sum = 0;
  for (int i = 0; i < COUNT(wake_bits); i++) {
    long woken = futex(&word, FUTEX_WAKE_BITSET | PRIVATE, i == 1 ? 1 : INT_MAX, NULL, NULL, wake_bits[i]);
    sum += (int)woken;
    wait_until(returned == sum);
    say("wake bits %#x: %s", wake_bits[i], result(woken));
  }
  say("plain wake takes any: %s", result(futex_wake(&word, INT_MAX)));
  join_waiters(list, COUNT(bits));
  say("returned %d", returned);
  returned = 0;
}

CASE(private_and_shared_are_apart) {
  struct waiter list[2];
  add_waiter(&list[0], 0, &word, FUTEX_WAIT | PRIVATE, 0);
  say("shared wake: %s", result(futex(&word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0)));
  add_waiter(&list[1], 1, &word, FUTEX_WAIT, 0);
  say("shared wake: %s", result(futex(&word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0)));
  finish(list[1].thread);
  say_returns("returned");
  say("private wake: %s", result(futex_wake(&word, INT_MAX)));
  finish(list[0].thread);
  say_returns("returned");
}

CASE(neighbours_are_apart) {
  static _Atomic uint32_t words[64];
  struct waiter list[64];
  for (int i = 0; i < 64; i++) add_waiter(&list[i], i, &words[i], FUTEX_WAIT | PRIVATE, 0);
  for (int i = 63; i >= 0; i -= 3) {
    must(futex_wake(&words[i], INT_MAX) == 1);
    finish(list[i].thread);
  }
  say_returns("every third");
  for (int i = 0; i < 64; i++) {
    if (i % 3 == 0) continue;
    must(futex_wake(&words[i], INT_MAX) == 1);
    finish(list[i].thread);
  }
  returned = 0;
}

CASE(operations_that_do_not_exist) {
  static const int ops[] = {FUTEX_FD, 14, 15, 20, 100, 127, 1 << 9, 1 << 12, 1 << 30};
  for (int i = 0; i < COUNT(ops); i++) say("op %d: %s", ops[i], result(futex(&word, ops[i], 0, NULL, &word, 0)));
  /* Only three operations know FUTEX_CLOCK_REALTIME, and two more that take a timeout do not need it. */
  struct timespec past = {0, 1};
  for (int op = 0; op <= 13; op++) {
    if (op == FUTEX_FD) continue;
    word = 0;
    long value = futex(&word, op | FUTEX_CLOCK_REALTIME | PRIVATE, 0, &past, &word, 0);
    say("op %d with the realtime flag: %s, %s", op, result(value), word == 0 ? "word untouched" : word == (uint32_t)gettid() ? "locked" : "word changed");
  }
}

static volatile sig_atomic_t handled;
static void on_signal(int signal) { handled = signal; }

static void interrupt(const char *what, int flags) {
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
  struct waiter waiter;
  sigaction(SIGUSR1, &action, NULL);
  handled = 0;
  add_waiter(&waiter, 0, &word, FUTEX_WAIT | PRIVATE, 0);
  pthread_kill(waiter.thread, SIGUSR1);
  wait_until(handled == SIGUSR1);
  if (flags & SA_RESTART) {
    wait_until(waiters(&word, PRIVATE) == 1);
    futex_wake(&word, 1);
  }
  finish(waiter.thread);
  say_returns(what);
}

CASE(interrupted) { interrupt("without SA_RESTART", 0); }
CASE(restarted) { interrupt("with SA_RESTART", SA_RESTART); }

static void *timed_wait(void *unused) {
  (void)unused;
  struct timespec timeout = {.tv_sec = 20};
  note_return(0, futex(&word, FUTEX_WAIT | PRIVATE, word, &timeout, NULL, 0));
  return NULL;
}

/* A wait with a timeout is not restarted by a handler, whatever its flags say. */
CASE(interrupted_with_timeout) {
  for (int flags = 0; flags <= SA_RESTART; flags += SA_RESTART) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
    sigaction(SIGUSR1, &action, NULL);
    pthread_t thread = start(timed_wait, NULL);
    wait_until(waiters(&word, PRIVATE) == 1);
    pthread_kill(thread, SIGUSR1);
    finish(thread);
    say_returns(flags ? "with SA_RESTART" : "without");
  }
}

/* A signal that is ignored, or blocked, ends no wait. */
CASE(not_interrupted) {
  struct waiter waiter;
  sigset_t usr2;
  signal(SIGUSR1, SIG_IGN);
  sigemptyset(&usr2);
  sigaddset(&usr2, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &usr2, NULL);
  add_waiter(&waiter, 0, &word, FUTEX_WAIT | PRIVATE, 0);
  pthread_kill(waiter.thread, SIGUSR1);
  pthread_kill(waiter.thread, SIGUSR2);
  settle();
  say("still waits %s", result(waiters(&word, PRIVATE)));
  say("woken %s", result(futex_wake(&word, 1)));
  finish(waiter.thread);
  say_returns("returned");
  pthread_sigmask(SIG_UNBLOCK, &usr2, NULL);
}

static void *ping(void *argument) {
  uint32_t me = (uint32_t)(intptr_t)argument;
  for (int i = 0; i < 20000; i++) {
    while (word % 2 != me) futex_wait(&word, !me);
    word = !me;
    futex_wake(&word, 1);
  }
  return NULL;
}

CASE(hand_over) {
  word = 0;
  pthread_t a = start(ping, (void *)0), b = start(ping, (void *)1);
  finish(a);
  finish(b);
  say("word %u", word);
}
