/* Timers: never early, once each, with the value that they were given. */
#ifndef TIMERS_H
#define TIMERS_H

#include "signals.h"

static void wait_for_timer(void) {
  sigset_t set, before;
  siginfo_t info;
  timer_t timer;
  int value = (int)dice(1000000);
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIG_WAITED, .sigev_value.sival_int = value};
  event._sigev_un._tid = gettid();
  sigemptyset(&set);
  sigaddset(&set, SIG_WAITED);
  pthread_sigmask(SIG_BLOCK, &set, &before);
  int answer = timer_create(CLOCK_MONOTONIC, &event, &timer);
  check(answer == 0 || errno == EAGAIN, "timer_create answered %d", errno);
  if (answer == 0) {
    long span = 1 + (long)dice(300000), period = dice(2) ? 20000 + (long)dice(200000) : 0;
    int64_t from = monotonic_ns(), expiries = 0;
    struct itimerspec time = {{0, period}, {0, span}};
    check(timer_settime(timer, 0, &time, NULL) == 0, "timer_settime answered %d", errno);
    for (int wanted = period ? 1 + (int)dice(6) : 1; wanted > 0; wanted--) {
      answer = wait_for_signal(&set, &info, (struct timespec){20, 0});
      check(answer == SIG_WAITED, "a timer's signal did not come: %d, %d", answer, errno);
      if (answer != SIG_WAITED) break;
      check(info.si_code == SI_TIMER && info.si_value.sival_int == value, "a timer's signal has code %d and value %d",
            info.si_code, info.si_value.sival_int);
      expiries += 1 + info.si_overrun;
      int64_t passed = monotonic_ns() - from, due = span + (expiries - 1) * period;
      check(passed >= due, "%lld expiries after %lld ns and not %lld, every %ld; this one overran %d times",
            (long long)expiries, (long long)passed, (long long)due, period, info.si_overrun);
    }
    check(timer_delete(timer) == 0, "timer_delete answered %d", errno);
  }
  while (wait_for_signal(&set, &info, (struct timespec){0, 0}) > 0) {}
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Interval timers are the process's: their signals meet whoever runs. */
static void set_interval_timer(void) {
  static const int which[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};
  struct itimerval time = {{0, 1000 + (long)dice(20000)}, {0, 500 + (long)dice(5000)}}, old;
  int timer = which[dice(3)];
  if (dice(4) == 0) memset(&time, 0, sizeof time);
  check(setitimer(timer, &time, &old) == 0, "setitimer answered %d", errno);
  check(old.it_interval.tv_sec == 0 && old.it_interval.tv_usec <= 21000, "an interval was %ld s %ld us",
        (long)old.it_interval.tv_sec, (long)old.it_interval.tv_usec);
}

static void stop_interval_timers(void) {
  struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &never, NULL);
  setitimer(ITIMER_VIRTUAL, &never, NULL);
  setitimer(ITIMER_PROF, &never, NULL);
}

#endif
