//@ privileged
//@ alone
/* What priorities and their inheritance do to the order of running: real-time threads on one CPU. */
#include "../realtime.h"
#include "futex.h"

struct lock {
  _Atomic uint32_t word;
};

static void lock(struct lock *lock) {
  uint32_t expected = 0;
  if (atomic_compare_exchange_strong(&lock->word, &expected, (uint32_t)gettid())) return;
  must(futex(&lock->word, FUTEX_LOCK_PI | PRIVATE, 0, NULL, NULL, 0) == 0);
}

static void unlock(struct lock *lock) {
  uint32_t expected = (uint32_t)gettid();
  if (atomic_compare_exchange_strong(&lock->word, &expected, 0)) return;
  must(futex(&lock->word, FUTEX_UNLOCK_PI | PRIVATE, 0, NULL, NULL, 0) == 0);
}

static struct lock locks[4];
static sem_t go, go_middle;

/* Holds one lock, then waits for the word to go on; what it notes shows when it ran. */
static void *low(void *unused) {
  (void)unused;
  lock(&locks[0]);
  sem_wait(&go);
  note("low");
  unlock(&locks[0]);
  note("low-end");
  return NULL;
}

static void *middle(void *unused) {
  (void)unused;
  sem_wait(&go_middle);
  note("middle");
  return NULL;
}

/* Takes lock `index`, then the one before it. */
static void *link_of_chain(void *index_pointer) {
  int index = (int)(intptr_t)index_pointer;
  lock(&locks[index]);
  lock(&locks[index - 1]);
  note("link%d", index);
  unlock(&locks[index - 1]);
  unlock(&locks[index]);
  note("link%d-end", index);
  return NULL;
}

static void *high(void *index_pointer) {
  int index = (int)(intptr_t)index_pointer;
  lock(&locks[index]);
  note("high");
  unlock(&locks[index]);
  return NULL;
}

static void begin(void) {
  conduct();
  sem_init(&go, 0, 0);
  sem_init(&go_middle, 0, 0);
}

CASE(no_inversion) {
  begin();
  pthread_t threads[3];
  threads[0] = start_as(SCHED_FIFO, 10, low, NULL);
  threads[1] = start_as(SCHED_FIFO, 20, middle, NULL);
  let_others_run();
  threads[2] = start_as(SCHED_FIFO, 30, high, (void *)0);
  let_others_run();
  sem_post(&go_middle);
  sem_post(&go);
  for (int i = 0; i < 3; i++) finish(threads[i]);
  say_log("order");
}

CASE(chain_of_three) {
  begin();
  pthread_t threads[5];
  threads[0] = start_as(SCHED_FIFO, 10, low, NULL);
  let_others_run();
  threads[1] = start_as(SCHED_FIFO, 12, link_of_chain, (void *)1);
  let_others_run();
  threads[2] = start_as(SCHED_FIFO, 14, link_of_chain, (void *)2);
  let_others_run();
  threads[3] = start_as(SCHED_FIFO, 20, middle, NULL);
  let_others_run();
  threads[4] = start_as(SCHED_FIFO, 30, high, (void *)2);
  let_others_run();
  sem_post(&go_middle);
  sem_post(&go);
  for (int i = 0; i < 5; i++) finish(threads[i]);
  say_log("order");
}

static void *impatient(void *unused) {
  (void)unused;
  struct timespec until = timespec_of(now_ns(CLOCK_REALTIME) + 100000000);
  long answer = futex(&locks[0].word, FUTEX_LOCK_PI | PRIVATE, 0, &until, NULL, 0);
  note("impatient-%s", result(answer));
  return NULL;
}

/* When the waiter gives up, so does its priority. */
CASE(timeout_takes_the_boost_back) {
  begin();
  pthread_t threads[3];
  threads[0] = start_as(SCHED_FIFO, 10, low, NULL);
  threads[1] = start_as(SCHED_FIFO, 20, middle, NULL);
  let_others_run();
  threads[2] = start_as(SCHED_FIFO, 30, impatient, NULL);
  finish(threads[2]);
  sem_post(&go_middle);
  sem_post(&go);
  for (int i = 0; i < 2; i++) finish(threads[i]);
  say_log("order");
}

static atomic_int waiter_tid, owner_tid;

static void *high_with_tid(void *index) {
  waiter_tid = gettid();
  return high(index);
}

static void *low_with_tid(void *unused) {
  owner_tid = gettid();
  return low(unused);
}

/* A waiter whose priority changes while it waits hands on the new one. */
static void waiter_changes(int to) {
  begin();
  pthread_t threads[3];
  threads[0] = start_as(SCHED_FIFO, 10, low, NULL);
  threads[1] = start_as(SCHED_FIFO, 20, middle, NULL);
  let_others_run();
  threads[2] = start_as(SCHED_FIFO, to == 30 ? 15 : 30, high_with_tid, (void *)0);
  let_others_run();
  set_priority(waiter_tid, SCHED_FIFO, to);
  sem_post(&go_middle);
  sem_post(&go);
  for (int i = 0; i < 3; i++) finish(threads[i]);
  say_log("order");
}

CASE(waiter_is_raised) { waiter_changes(30); }
CASE(waiter_is_lowered) { waiter_changes(15); }

/* An owner whose own priority is changed keeps what it inherits, and has the new one afterwards. */
CASE(owner_is_changed_while_boosted) {
  begin();
  pthread_t threads[3];
  threads[0] = start_as(SCHED_FIFO, 10, low_with_tid, NULL);
  threads[1] = start_as(SCHED_FIFO, 20, middle, NULL);
  let_others_run();
  threads[2] = start_as(SCHED_FIFO, 30, high, (void *)0);
  let_others_run();
  set_priority(owner_tid, SCHED_FIFO, 5);
  struct sched_param param;
  must(sched_getparam(owner_tid, &param) == 0);
  say("own priority %d", param.sched_priority);
  sem_post(&go_middle);
  sem_post(&go);
  for (int i = 0; i < 3; i++) finish(threads[i]);
  say_log("order");
}

/* A thread of the ordinary class that holds the lock. */
CASE(ordinary_owner_is_boosted) {
  begin();
  pthread_t threads[3];
  threads[0] = start_as(SCHED_OTHER, 0, low, NULL);
  threads[1] = start_as(SCHED_FIFO, 20, middle, NULL);
  while (locks[0].word == 0) sleep_ms(1);
  let_others_run();
  threads[2] = start_as(SCHED_FIFO, 30, high, (void *)0);
  let_others_run();
  sem_post(&go_middle);
  sem_post(&go);
  for (int i = 0; i < 3; i++) finish(threads[i]);
  say_log("order");
}

static void *take_turn(void *priority) {
  lock(&locks[0]);
  note("%d", (int)(intptr_t)priority);
  unlock(&locks[0]);
  return NULL;
}

static const int mixed[] = {12, 30, 7, 30, 45, 12, 2};

CASE(hand_over_by_priority) {
  pthread_t threads[COUNT(mixed)];
  begin();
  lock(&locks[0]);
  for (int i = 0; i < COUNT(mixed); i++) {
    threads[i] = start_as(SCHED_FIFO, mixed[i], take_turn, (void *)(intptr_t)mixed[i]);
    let_others_run();
  }
  unlock(&locks[0]);
  for (int i = 0; i < COUNT(mixed); i++) finish(threads[i]);
  say_log("order");
}

static _Atomic uint32_t word;

static void *wait_plainly(void *index) {
  int i = (int)(intptr_t)index;
  must(futex_wait(&word, 0) == 0);
  note("%d(%d)", mixed[i], i);
  return NULL;
}

/* Plain waiters too are woken by real-time priority, first come first served within one. */
CASE(plain_wake_by_priority) {
  pthread_t threads[COUNT(mixed)];
  begin();
  for (int i = 0; i < COUNT(mixed); i++) {
    threads[i] = start_as(SCHED_FIFO, mixed[i], wait_plainly, (void *)(intptr_t)i);
    let_others_run();
  }
  for (int i = 0; i < COUNT(mixed); i++) {
    must(futex_wake(&word, 1) == 1);
    let_others_run();
  }
  for (int i = 0; i < COUNT(mixed); i++) finish(threads[i]);
  say_log("order");
}

static void *wait_for_requeue(void *index) {
  int i = (int)(intptr_t)index;
  must(futex(&word, FUTEX_WAIT_REQUEUE_PI | PRIVATE, 0, NULL, &locks[0].word, 0) == 0);
  note("%d(%d)", mixed[i], i);
  unlock(&locks[0]);
  return NULL;
}

CASE(requeue_pi_by_priority) {
  pthread_t threads[COUNT(mixed)];
  begin();
  for (int i = 0; i < COUNT(mixed); i++) {
    threads[i] = start_as(SCHED_FIFO, mixed[i], wait_for_requeue, (void *)(intptr_t)i);
    let_others_run();
  }
  lock(&locks[0]);
  say("requeue %s", result(futex(&word, FUTEX_CMP_REQUEUE_PI | PRIVATE, 1, (void *)(intptr_t)INT_MAX, &locks[0].word, 0)));
  unlock(&locks[0]);
  for (int i = 0; i < COUNT(mixed); i++) finish(threads[i]);
  say_log("order");
}

/* Two waiters for two locks of one owner: each unlock takes back its own boost only. */
static void *low_with_two(void *unused) {
  (void)unused;
  lock(&locks[0]);
  lock(&locks[1]);
  sem_wait(&go);
  note("both");
  unlock(&locks[1]);
  note("one");
  unlock(&locks[0]);
  note("none");
  return NULL;
}

CASE(two_locks_two_boosts) {
  begin();
  pthread_t threads[4];
  threads[0] = start_as(SCHED_FIFO, 10, low_with_two, NULL);
  threads[1] = start_as(SCHED_FIFO, 20, middle, NULL);
  let_others_run();
  threads[2] = start_as(SCHED_FIFO, 25, high, (void *)0);
  let_others_run();
  threads[3] = start_as(SCHED_FIFO, 30, high, (void *)1);
  let_others_run();
  sem_post(&go_middle);
  sem_post(&go);
  for (int i = 0; i < 4; i++) finish(threads[i]);
  say_log("order");
}
