/* Setting and reading (table B5). */
#include "raw.h"

CASE(bad_settings) {
  int id = silent_timer();
  setting bad[] = {
      {.it_value = {0, -1}},        {.it_value = {0, 1000000000}},    {.it_value = {-1, 0}},
      {.it_interval = {0, -1}},     {.it_interval = {0, 1000000000}}, {.it_interval = {-1, 0}},
      {.it_value = {1, 999999999}}, {.it_interval = {LONG_MAX, 0}},
  };
  for (int i = 0; i < COUNT(bad); i++) say("%d: %s", i, result(settime(id, 0, &bad[i], NULL)));
  say("none %s", result(settime(id, 0, NULL, NULL)));
  say("unreadable %s", result(settime(id, 0, (setting *)8, NULL)));
  say("none before the id %s", result(settime(12345, 0, NULL, NULL)));
  say("unreadable before the id %s", result(settime(12345, 0, (setting *)8, NULL)));
  say("bad before the id %s", result(settime(12345, 0, &bad[0], NULL)));
  delete(id);
}

CASE(flags) {
  int id = silent_timer();
  setting s = after(50 * MS, 0), now;
  int flags[] = {0, 2, 4, 0x80, -2};
  for (int i = 0; i < COUNT(flags); i++) {
    say("flags %d: %s", flags[i], result(settime(id, flags[i], &s, NULL)));
    gettime(id, &now);
    must(ns_of(now.it_value) <= 50 * MS && ns_of(now.it_value) > 0);
  }
  say("all flags: %s", result(settime(id, 0xff, &s, NULL)));
  gettime(id, &now);
  say("taken as absolute, long past: %ld", (long)ns_of(now.it_value));
  delete(id);
}

CASE(an_old_setting_that_cannot_be_written) {
  int id = silent_timer();
  setting s = after(3600 * 1000 * MS, 7 * MS), now;
  say("%s", result(settime(id, 0, &s, (setting *)8)));
  gettime(id, &now);
  say("set all the same: %d, interval %ld", now.it_value.tv_sec > 3500, now.it_interval.tv_nsec);
  say("gettime %s", result(gettime(id, (setting *)8)));
  delete(id);
}

CASE(the_old_setting) {
  int id = timer_for(SIGRTMIN + 2);
  block(SIGRTMIN + 2);
  setting a = after(3600 * 1000 * MS, 5 * MS), zero = {0}, old;
  need(settime(id, 0, &a, &old) == 0);
  say("first: %ld %ld", (long)ns_of(old.it_value), (long)ns_of(old.it_interval));
  need(settime(id, 0, &zero, &old) == 0);
  say("then: %d %ld", old.it_value.tv_sec >= 3590, (long)ns_of(old.it_interval));
  need(settime(id, 0, &zero, &old) == 0);
  say("then: %ld %ld", (long)ns_of(old.it_value), (long)ns_of(old.it_interval));
  delete(id);
}

CASE(disarming_forgets_the_interval) {
  int id = silent_timer();
  setting s = {.it_interval = {5, 0}}, now;
  need(settime(id, 0, &s, NULL) == 0);
  gettime(id, &now);
  say("%ld %ld", (long)ns_of(now.it_value), (long)ns_of(now.it_interval));
  delete(id);
}

CASE(huge_times) {
  int id = silent_timer();
  setting s = {.it_value = {LONG_MAX, 999999999}}, now;
  say("set %s", result(settime(id, 0, &s, NULL)));
  gettime(id, &now);
  say("more than 200 years: %d", now.it_value.tv_sec > 200L * 365 * 86400);
  say("absolute %s", result(settime(id, TIMER_ABSTIME, &s, NULL)));
  gettime(id, &now);
  say("more than 200 years: %d", now.it_value.tv_sec > 200L * 365 * 86400);
  s.it_interval.tv_sec = LONG_MAX;
  say("interval %s", result(settime(id, 0, &s, NULL)));
  gettime(id, &now);
  say("interval of more than 200 years: %d", now.it_interval.tv_sec > 200L * 365 * 86400);
  delete(id);
}

CASE(what_is_left) {
  int clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_TAI};
  for (int i = 0; i < COUNT(clocks); i++) {
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    int id = -1;
    need(create(clocks[i], &event, &id) == 0);
    setting s = after(10000 * MS, 300 * MS), now;
    need(settime(id, 0, &s, NULL) == 0);
    sleep_ms(2);
    gettime(id, &now);
    int64_t left = ns_of(now.it_value);
    must(left <= 9998 * MS && left > 1000 * MS);
    s.it_value = timespec_of(now_ns(clocks[i]) + 10000 * MS);
    need(settime(id, TIMER_ABSTIME, &s, NULL) == 0);
    gettime(id, &now);
    left = ns_of(now.it_value);
    must(left <= 10000 * MS && left > 1000 * MS);
    say("clock %d: interval %ld", clocks[i], (long)ns_of(now.it_interval));
    delete(id);
  }
}

CASE(an_expired_one_reads_zero) {
  int id = timer_for(SIGRTMIN + 2);
  block(SIGRTMIN + 2);
  arm(id, MS, 0);
  sleep_ms(20);
  setting now;
  gettime(id, &now);
  say("%ld %ld, pending %d", (long)ns_of(now.it_value), (long)ns_of(now.it_interval), is_pending(SIGRTMIN + 2));
  delete(id);
  say("pending after deletion %d", is_pending(SIGRTMIN + 2));
  siginfo_t info;
  say("taken %d", take(SIGRTMIN + 2, &info));
  say("pending %d", is_pending(SIGRTMIN + 2));
}

CASE(a_periodic_one_that_waits_for_delivery) {
  int id = timer_for(SIGRTMIN + 2);
  block(SIGRTMIN + 2);
  arm(id, 5 * MS, 5 * MS);
  sleep_ms(40);
  setting now;
  for (int i = 0; i < 20; i++) {
    gettime(id, &now);
    must(ns_of(now.it_value) > 0 && ns_of(now.it_value) <= 5 * MS);
  }
  say("interval %ld", (long)ns_of(now.it_interval));
  siginfo_t info;
  await(SIGRTMIN + 2, &info);
  must(info.si_overrun >= 6);
  delete(id);
}

CASE(silent_timers) {
  int id = silent_timer();
  setting now;
  arm(id, MS, 0);
  sleep_ms(20);
  gettime(id, &now);
  say("once: %ld %ld", (long)ns_of(now.it_value), (long)ns_of(now.it_interval));
  arm(id, MS, 3 * MS);
  sleep_ms(20);
  gettime(id, &now);
  must(ns_of(now.it_value) > 0 && ns_of(now.it_value) <= 3 * MS);
  say("again and again: interval %ld, overrun %s", (long)ns_of(now.it_interval), result(overrun_of(id)));
  delete(id);
}

CASE(absolute_and_past) {
  int clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_TAI};
  handle(SIGRTMIN + 3);
  for (int i = 0; i < COUNT(clocks); i++) {
    struct sigevent event = by_signal(SIGRTMIN + 3);
    int id = -1;
    need(create(clocks[i], &event, &id) == 0);
    setting s = {.it_value = timespec_of(now_ns(clocks[i]) - 3000 * MS)};
    handled = 0;
    need(settime(id, TIMER_ABSTIME, &s, NULL) == 0);
    wait_until(handled);
    say("clock %d: once %d, overrun %d", clocks[i], handled, last_overrun);
    /* Its first second. */
    s.it_value = (struct timespec){1, 0};
    need(settime(id, TIMER_ABSTIME, &s, NULL) == 0);
    wait_until(handled == 2);
    say("again %d", handled);
    delete(id);
  }
}

CASE(absolute_and_past_with_a_period) {
  int id = timer_for(SIGRTMIN + 3);
  block(SIGRTMIN + 3);
  setting s = {.it_value = timespec_of(now_ns(CLOCK_MONOTONIC) - 3000 * MS), .it_interval = timespec_of(1000 * MS)};
  need(settime(id, TIMER_ABSTIME, &s, NULL) == 0);
  siginfo_t info;
  await(SIGRTMIN + 3, &info);
  say("overrun %d, the call's %s", info.si_overrun, result(overrun_of(id)));
  delete(id);
}

CASE(a_very_short_period) {
  int id = timer_for(SIGRTMIN + 3);
  block(SIGRTMIN + 3);
  /* Absolute and long past: the count does not depend on when it is taken. */
  setting s = {.it_value = {1, 0}, .it_interval = {0, 1}};
  need(settime(id, TIMER_ABSTIME, &s, NULL) == 0);
  siginfo_t info;
  await(SIGRTMIN + 3, &info);
  say("overrun %d, the call's %s", info.si_overrun, result(overrun_of(id)));
  delete(id);
}

CASE(never_early) {
  int clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_TAI};
  block(SIGRTMIN + 3);
  for (int i = 0; i < COUNT(clocks); i++) {
    struct sigevent event = by_signal(SIGRTMIN + 3);
    siginfo_t info;
    int id = -1;
    need(create(clocks[i], &event, &id) == 0);
    for (int round = 0; round < 100; round++) {
      int64_t span = (round * 37 % 50) * MS / 20 + 1, before = now_ns(clocks[i]);
      if (round % 2) {
        arm(id, span, 0);
      } else {
        setting s = {.it_value = timespec_of(before + span)};
        need(settime(id, TIMER_ABSTIME, &s, NULL) == 0);
      }
      await(SIGRTMIN + 3, &info);
      must(now_ns(clocks[i]) >= before + span);
    }
    say("clock %d done", clocks[i]);
    delete(id);
  }
}

CASE(overrun_before_any_delivery) {
  int id = timer_for(SIGRTMIN + 3);
  say("%s", result(overrun_of(id)));
  block(SIGRTMIN + 3);
  arm(id, MS, MS);
  sleep_ms(10);
  say("not delivered yet: %s", result(overrun_of(id)));
  siginfo_t info;
  await(SIGRTMIN + 3, &info);
  must(overrun_of(id) == info.si_overrun && info.si_overrun >= 7);
  arm(id, 3600 * 1000 * MS, 0);
  say("set anew: %s", result(overrun_of(id)));
  delete(id);
}
