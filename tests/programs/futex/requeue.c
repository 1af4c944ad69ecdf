/* FUTEX_REQUEUE and FUTEX_CMP_REQUEUE. */
#include "futex.h"

static _Atomic uint32_t from, to;

static long requeue(int wake, int move) {
  return futex(&from, FUTEX_REQUEUE | PRIVATE, wake, (void *)(intptr_t)move, &to, 0);
}

static long cmp_requeue(int wake, int move, uint32_t expected) {
  return futex(&from, FUTEX_CMP_REQUEUE | PRIVATE, wake, (void *)(intptr_t)move, &to, expected);
}

CASE(nobody) {
  say("requeue %s", result(requeue(1, 1)));
  say("cmp_requeue %s", result(cmp_requeue(1, 1, from)));
  say("mismatch %s", result(cmp_requeue(1, 1, from + 1)));
}

CASE(bad_counts) {
  static const int counts[][2] = {{-1, 1}, {1, -1}, {-1, -1}, {INT_MIN, 0}, {0, INT_MIN}, {0, 0}};
  for (int i = 0; i < COUNT(counts); i++) {
    say("requeue %d %d: %s", counts[i][0], counts[i][1], result(requeue(counts[i][0], counts[i][1])));
    say("cmp_requeue %d %d: %s", counts[i][0], counts[i][1],
        result(cmp_requeue(counts[i][0], counts[i][1], from)));
  }
}

/* What each pair of counts does to 6 waiters. */
static void table(bool compare) {
  static const int counts[][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 3}, {0, INT_MAX}, {1, INT_MAX}, {INT_MAX, 1}};
  for (int i = 0; i < COUNT(counts); i++) {
    struct waiter list[6];
    add_waiters(list, 6, &from);
    int wake = counts[i][0], move = counts[i][1];
    long answer = compare ? cmp_requeue(wake, move, from) : requeue(wake, move);
    long stay = waiters(&from, PRIVATE), moved = waiters(&to, PRIVATE);
    wait_until(returned == 6 - stay - moved);
    say("wake %d, move %d: %s; stay %ld, moved %ld", wake, move, result(answer), stay, moved);
    must(futex_wake(&from, INT_MAX) == stay);
    must(futex_wake(&to, INT_MAX) == moved);
    join_waiters(list, 6);
    returned = 0;
  }
}

CASE(requeue_table) { table(false); }
CASE(cmp_requeue_table) { table(true); }

/* Where two words share a hash bucket Linux leaves a moved waiter before those that came to the second word
 * earlier, so none of those is here. */
CASE(order_is_kept) {
  struct waiter list[10];
  add_waiters(list, 5, &from);
  say("cmp_requeue %s", result(cmp_requeue(1, 3, from)));
  wait_until(returned == 1);
  for (int i = 5; i < 10; i++) add_waiter(&list[i], i, &to, FUTEX_WAIT | PRIVATE, 0);
  for (int i = 2; i <= 9; i++) {
    must(futex_wake(&to, 1) == 1);
    wait_until(returned == i);
  }
  must(futex_wake(&from, INT_MAX) == 1);
  join_waiters(list, 10);
  say_returns("returned");
}

/* The bits of a waiter, its timeout and its signals go with it. */
CASE(bits_are_kept) {
  struct waiter list[2];
  add_waiter(&list[0], 0, &from, FUTEX_WAIT_BITSET | PRIVATE, 1);
  add_waiter(&list[1], 1, &from, FUTEX_WAIT_BITSET | PRIVATE, 2);
  say("cmp_requeue %s", result(cmp_requeue(0, 2, from)));
  say("wake bit 2: %s", result(futex(&to, FUTEX_WAKE_BITSET | PRIVATE, INT_MAX, NULL, NULL, 2)));
  finish(list[1].thread);
  say_returns("returned");
  say("wake bit 1: %s", result(futex(&to, FUTEX_WAKE_BITSET | PRIVATE, INT_MAX, NULL, NULL, 1)));
  finish(list[0].thread);
  say_returns("returned");
}

static void *wait_a_while(void *unused) {
  (void)unused;
  struct timespec timeout = timespec_of(200000000);
  int64_t before = now_ns(CLOCK_MONOTONIC);
  long value = futex(&from, FUTEX_WAIT | PRIVATE, from, &timeout, NULL, 0);
  must(now_ns(CLOCK_MONOTONIC) - before >= 200000000);
  note_return(0, value);
  return NULL;
}

CASE(timeout_is_kept) {
  pthread_t thread = start(wait_a_while, NULL);
  wait_until(waiters(&from, PRIVATE) == 1);
  say("requeue %s", result(requeue(0, 1)));
  finish(thread);
  say_returns("returned");
  say("left behind %s", result(waiters(&to, PRIVATE)));
}

static void on_signal(int signal) { (void)signal; }

CASE(signal_finds_it) {
  struct waiter waiter;
  struct sigaction action = {.sa_handler = on_signal};
  sigaction(SIGUSR1, &action, NULL);
  add_waiter(&waiter, 0, &from, FUTEX_WAIT | PRIVATE, 0);
  say("requeue %s", result(requeue(0, 1)));
  pthread_kill(waiter.thread, SIGUSR1);
  finish(waiter.thread);
  say_returns("returned");
}

CASE(to_itself) {
  struct waiter list[3];
  add_waiters(list, 3, &from);
  say("requeue to itself %s",
      result(futex(&from, FUTEX_REQUEUE | PRIVATE, 1, (void *)1, &from, 0)));
  wait_until(returned == 1);
  say("left %s", result(waiters(&from, PRIVATE)));
  futex_wake(&from, INT_MAX);
  join_waiters(list, 3);
  say("returned %d", returned);
  returned = 0;
}

enum { MANY = 200 };

/* More than a kernel moves in one go, to and fro. */
CASE(many) {
  static struct waiter list[MANY];
  for (int i = 0; i < MANY; i++) {
    list[i] = (struct waiter){.who = i, .op = FUTEX_WAIT | PRIVATE, .word = &from, .value = from};
    list[i].thread = start(wait_once, &list[i]);
  }
  wait_until(waiters(&from, PRIVATE) == MANY);
  say("there %s", result(requeue(0, INT_MAX)));
  say("back %s", result(futex(&to, FUTEX_REQUEUE | PRIVATE, 0, (void *)(intptr_t)INT_MAX, &from, 0)));
  say("wake %s", result(futex_wake(&from, INT_MAX)));
  join_waiters(list, MANY);
  returned = 0;
}
