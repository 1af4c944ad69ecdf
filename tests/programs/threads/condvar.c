/* Condition variables. */
#include "../check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER, other_cond = PTHREAD_COND_INITIALIZER;
static int turn, waiting, released;

static void *ping_pong(void *argument) {
  int me = (int)(intptr_t)argument;
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < 5000; i++) {
    while (turn != me) pthread_cond_wait(me ? &cond : &other_cond, &mutex);
    turn = !me;
    pthread_cond_signal(me ? &other_cond : &cond);
  }
  pthread_mutex_unlock(&mutex);
  return NULL;
}

CASE(ping_pong) {
  pthread_t a = start(ping_pong, (void *)0), b = start(ping_pong, (void *)1);
  finish(a);
  finish(b);
  say("turn %d", turn);
}

static void *wait_released(void *unused) {
  (void)unused;
  pthread_mutex_lock(&mutex);
  waiting++;
  while (!released) pthread_cond_wait(&cond, &mutex);
  released--;
  waiting--;
  pthread_mutex_unlock(&mutex);
  return NULL;
}

static void release(int how_many, bool broadcast) {
  pthread_t threads[40];
  for (int i = 0; i < COUNT(threads); i++) threads[i] = start(wait_released, NULL);
  for (int ready = 0; !ready; sched_yield()) {
    pthread_mutex_lock(&mutex);
    ready = waiting == COUNT(threads);
    pthread_mutex_unlock(&mutex);
  }
  for (int done = 0; done < COUNT(threads); done += how_many) {
    pthread_mutex_lock(&mutex);
    released += how_many;
    if (broadcast) pthread_cond_broadcast(&cond);
    else pthread_cond_signal(&cond);
    pthread_mutex_unlock(&mutex);
  }
  for (int i = 0; i < COUNT(threads); i++) finish(threads[i]);
  say("released %d, waiting %d", released, waiting);
}

CASE(signal_each) { release(1, false); }
CASE(broadcast_all) { release(40, true); }
CASE(broadcast_in_groups) { release(8, true); }

static void timed(clockid_t set, clockid_t wait_on, bool clockwait) {
  pthread_condattr_t attr;
  pthread_cond_t timed_cond;
  pthread_condattr_init(&attr);
  say("setclock %s", errname(pthread_condattr_setclock(&attr, set)));
  pthread_cond_init(&timed_cond, &attr);
  pthread_mutex_lock(&mutex);
  for (int ms = 0; ms <= 30; ms += 10) {
    struct timespec until = timespec_of(now_ns(wait_on) + ms * INT64_C(1000000));
    int answer = clockwait ? pthread_cond_clockwait(&timed_cond, &mutex, wait_on, &until)
                           : pthread_cond_timedwait(&timed_cond, &mutex, &until);
    int64_t late = now_ns(wait_on) - until.tv_sec * INT64_C(1000000000) - until.tv_nsec;
    must(answer != ETIMEDOUT || late >= 0);
    say("%d ms: %s", ms, errname(answer));
  }
  struct timespec past = {.tv_sec = -5, .tv_nsec = 0}, bad = {.tv_sec = 0, .tv_nsec = -1};
  say("in the past %s", errname(pthread_cond_timedwait(&timed_cond, &mutex, &past)));
  say("bad time %s", errname(pthread_cond_timedwait(&timed_cond, &mutex, &bad)));
  pthread_mutex_unlock(&mutex);
}

CASE(timed_realtime) { timed(CLOCK_REALTIME, CLOCK_REALTIME, false); }
CASE(timed_monotonic) { timed(CLOCK_MONOTONIC, CLOCK_MONOTONIC, false); }
CASE(clockwait_realtime) { timed(CLOCK_MONOTONIC, CLOCK_REALTIME, true); }
CASE(clockwait_monotonic) { timed(CLOCK_REALTIME, CLOCK_MONOTONIC, true); }

CASE(refused_clocks) {
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  say("process clock %s", errname(pthread_condattr_setclock(&attr, CLOCK_PROCESS_CPUTIME_ID)));
  say("no clock %s", errname(pthread_condattr_setclock(&attr, 77)));
}

static void *signal_soon(void *unused) {
  (void)unused;
  for (int i = 0; i < 500; i++) {
    pthread_mutex_lock(&mutex);
    released = 1;
    pthread_cond_signal(&cond);
    while (released) pthread_cond_wait(&other_cond, &mutex);
    pthread_mutex_unlock(&mutex);
  }
  return NULL;
}

/* A signal that comes in time beats the timeout. */
CASE(timed_wait_signalled) {
  int timeouts = 0;
  pthread_t thread = start(signal_soon, NULL);
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < 500; i++) {
    struct timespec until = timespec_of(now_ns(CLOCK_REALTIME) + INT64_C(20000000000));
    while (!released) timeouts += pthread_cond_timedwait(&cond, &mutex, &until) == ETIMEDOUT;
    released = 0;
    pthread_cond_signal(&other_cond);
  }
  pthread_mutex_unlock(&mutex);
  finish(thread);
  say("timeouts %d", timeouts);
}

/* Short timeouts race with signals; not one hand-over may be lost. */
CASE(timeout_races_signal) {
  pthread_t thread = start(signal_soon, NULL);
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < 500; i++) {
    while (!released) {
      struct timespec until = timespec_of(now_ns(CLOCK_REALTIME) + i % 50 * 1000);
      pthread_cond_timedwait(&cond, &mutex, &until);
    }
    released = 0;
    pthread_cond_signal(&other_cond);
  }
  pthread_mutex_unlock(&mutex);
  finish(thread);
  say("done");
}

/* A bounded queue, four producers and four consumers. */
enum { SLOTS = 8, ITEMS = 5000 };
static int queue[SLOTS], queued, taken;
static long queue_sum;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;

static void *produce(void *base) {
  for (int i = 0; i < ITEMS; i++) {
    pthread_mutex_lock(&mutex);
    while (queued == SLOTS) pthread_cond_wait(&not_full, &mutex);
    queue[queued++] = (int)(intptr_t)base + i;
    pthread_cond_signal(&not_empty);
    pthread_mutex_unlock(&mutex);
  }
  return NULL;
}

static void *consume(void *unused) {
  (void)unused;
  for (;;) {
    pthread_mutex_lock(&mutex);
    while (queued == 0 && taken < 4 * ITEMS) pthread_cond_wait(&not_empty, &mutex);
    if (taken == 4 * ITEMS) break;
    queue_sum += queue[--queued];
    if (++taken == 4 * ITEMS) pthread_cond_broadcast(&not_empty);
    pthread_cond_signal(&not_full);
    pthread_mutex_unlock(&mutex);
  }
  pthread_mutex_unlock(&mutex);
  return NULL;
}

CASE(bounded_queue) {
  pthread_t threads[8];
  for (int i = 0; i < 8; i++)
    threads[i] = i < 4 ? start(produce, (void *)(intptr_t)(i * 100000)) : start(consume, NULL);
  for (int i = 0; i < 8; i++) finish(threads[i]);
  say("taken %d, sum %ld", taken, queue_sum);
}

static pthread_mutex_t pi_mutex;

static void *wait_with_pi(void *unused) {
  (void)unused;
  pthread_mutex_lock(&pi_mutex);
  waiting++;
  while (!released) pthread_cond_wait(&cond, &pi_mutex);
  waiting--;
  pthread_mutex_unlock(&pi_mutex);
  return NULL;
}

CASE(broadcast_to_inheriting_mutex) {
  pthread_mutexattr_t attr;
  pthread_t threads[10];
  pthread_mutexattr_init(&attr);
  pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
  pthread_mutex_init(&pi_mutex, &attr);
  released = waiting = 0;
  for (int i = 0; i < COUNT(threads); i++) threads[i] = start(wait_with_pi, NULL);
  for (int ready = 0; !ready; sched_yield()) {
    pthread_mutex_lock(&pi_mutex);
    ready = waiting == COUNT(threads);
    pthread_mutex_unlock(&pi_mutex);
  }
  pthread_mutex_lock(&pi_mutex);
  released = 1;
  pthread_cond_broadcast(&cond);
  pthread_mutex_unlock(&pi_mutex);
  for (int i = 0; i < COUNT(threads); i++) finish(threads[i]);
  say("waiting %d", waiting);
  released = 0;
}
