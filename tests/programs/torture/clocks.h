/* Clocks of CPU time: none goes back, whoever reads it; what threads have consumed is in what their process has; a
 * timer goes by consumption and is never early. */
#ifndef CLOCKS_H
#define CLOCKS_H

#include "torture.h"

/* The largest reading of the process's clock that anybody has had. */
static _Atomic int64_t process_seen;

static int64_t read_clock(clockid_t clock) {
  struct timespec now;
  if (clock_gettime(clock, &now) != 0) return -1;
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int64_t read_process(void) {
  int64_t seen = atomic_load(&process_seen), now = read_clock(CLOCK_PROCESS_CPUTIME_ID), last = seen;
  check(now >= seen, "the process's clock went from %lld back to %lld", (long long)seen, (long long)now);
  while (last < now && !atomic_compare_exchange_weak(&process_seen, &last, now)) {}
  return now;
}

static void look_at_clocks(void) {
  int64_t before = atomic_load(&me->consumed), now = read_clock(CLOCK_THREAD_CPUTIME_ID);
  check(now >= before, "the own clock went from %lld back to %lld", (long long)before, (long long)now);
  atomic_store(&me->consumed, now);
  struct worker *other = &workers[dice((uint64_t)worker_count)];
  clockid_t clock;
  if (!atomic_load(&other->ended) && atomic_load(&other->consumed) > 0 &&
      pthread_getcpuclockid(other->thread, &clock) == 0) {
    before = atomic_load(&other->consumed), now = read_clock(clock);
    /* -1: it has ended meanwhile. */
    check(now == -1 || now >= before, "thread %d's clock went from %lld back to %lld", other->index, (long long)before,
          (long long)now);
  }
  int64_t sum = 0;
  for (int i = 0; i < worker_count; i++) sum += atomic_load(&workers[i].consumed);
  now = read_process();
  check(now >= sum, "threads consumed %lld ns of the process's %lld", (long long)sum, (long long)now);
}

/* One that tells nobody is asked until it has expired; asking consumes. */
static void watch_cpu_timer(void) {
  timer_t timer;
  struct sigevent nobody = {.sigev_notify = SIGEV_NONE};
  int64_t span = 1000 + (int64_t)dice(300000), start, latest, left;
  struct itimerspec setting = {.it_value.tv_nsec = span};
  if (timer_create(CLOCK_PROCESS_CPUTIME_ID, &nobody, &timer) != 0) return;
  start = read_process();
  check(timer_settime(timer, 0, &setting, NULL) == 0, "timer_settime answered %d", errno);
  latest = read_process();
  do {
    int64_t before = read_process();
    check(timer_gettime(timer, &setting) == 0, "timer_gettime answered %d", errno);
    int64_t after = read_process();
    left = setting.it_value.tv_sec * INT64_C(1000000000) + setting.it_value.tv_nsec;
    check(left <= 1 || left <= latest + span - before, "%lld ns are too much", (long long)left);
    check(left >= start + span - after, "%lld ns are too little", (long long)left);
  } while (left > 1);
  check(timer_delete(timer) == 0, "timer_delete answered %d", errno);
}

#endif
