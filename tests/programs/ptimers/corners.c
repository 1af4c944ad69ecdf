/* Corners of tables B4 to B8: orders of checks, what a signal carries, who takes it, and settings on the way. */
#include "raw.h"

#define RT (SIGRTMIN + 3)

static int64_t now_on(clockid_t clock) {
  struct timespec t;
  need(clock_gettime(clock, &t) == 0);
  return ns_of(t);
}

static int timer_on(clockid_t clock, int signal) {
  struct sigevent event = by_signal(signal);
  int id = -1;
  need(create(clock, &event, &id) == 0);
  return id;
}

/* A timer that expires once has done so: however late the host lets it, its signal is where it belongs. */
static void until_expired(int id) {
  setting left;
  do {
    usleep(1000);
    need(gettime(id, &left) == 0);
  } while (ns_of(left.it_value) != 0);
}

/* What settime looks at first. */
CASE(an_unknown_id_comes_last) {
  setting good = after(MS, 0), bad = after(MS, 0);
  bad.it_value.tv_nsec = 1000000000;
  int id = silent_timer(), nobody = 12345;
  say("no setting: %s, %s", result(settime(id, 0, NULL, NULL)), result(settime(nobody, 0, NULL, NULL)));
  say("unreadable: %s, %s", result(settime(id, 0, (setting *)8, NULL)), result(settime(nobody, 0, (setting *)8, NULL)));
  say("bad: %s, %s", result(settime(id, 0, &bad, NULL)), result(settime(nobody, 0, &bad, NULL)));
  say("good: %s, %s", result(settime(id, 0, &good, NULL)), result(settime(nobody, 0, &good, NULL)));
  say("bad old place: %s, %s", result(settime(id, 0, &good, (setting *)8)), result(settime(nobody, 0, &good, (setting *)8)));
  need(delete(id) == 0);
}

CASE(a_bad_period_is_refused_even_to_disarm) {
  int id = silent_timer();
  setting s = {0};
  for (int i = 0; i < 4; i++) {
    s.it_interval = (struct timespec[]){{0, -1}, {-1, 0}, {0, 1000000000}, {0, 999999999}}[i];
    say("%d: %s", i, result(settime(id, 0, &s, NULL)));
  }
  need(delete(id) == 0);
}

CASE(where_gettime_writes) {
  int id = silent_timer();
  say("bad place: %s", result(gettime(id, (setting *)8)));
  say("no place: %s", result(gettime(id, NULL)));
  say("unknown and bad: %s", result(gettime(999, (setting *)8)));
  need(delete(id) == 0);
}

CASE(the_largest_fraction) {
  int id = silent_timer();
  setting s = {.it_value = {3, 999999999}, .it_interval = {0, 999999999}}, now;
  say("set %s", result(settime(id, 0, &s, NULL)));
  need(gettime(id, &now) == 0);
  say("interval %ld", now.it_interval.tv_nsec);
  must(ns_of(now.it_value) > 3900 * MS && ns_of(now.it_value) <= 4000 * MS);
  need(delete(id) == 0);
}

/* Each clock: never early by itself, once, with no overrun. */
static void on_clock(clockid_t clock, int flags) {
  block(RT);
  int id = timer_on(clock, RT);
  int64_t from = now_on(clock);
  setting s = after(flags ? from + 15 * MS : 15 * MS, 0), left;
  say("set %s", result(settime(id, flags, &s, NULL)));
  siginfo_t info;
  await(RT, &info);
  must(now_on(clock) >= from + 15 * MS);
  need(gettime(id, &left) == 0);
  say("overrun %d, left %d", info.si_overrun, ns_of(left.it_value) != 0);
  say("again %d", take(RT, &info));
  need(delete(id) == 0);
}
CASE(absolute_on_realtime) { on_clock(CLOCK_REALTIME, TIMER_ABSTIME); }
CASE(relative_on_realtime) { on_clock(CLOCK_REALTIME, 0); }
CASE(absolute_on_boottime) { on_clock(CLOCK_BOOTTIME, TIMER_ABSTIME); }
CASE(relative_on_boottime) { on_clock(CLOCK_BOOTTIME, 0); }
CASE(absolute_on_tai) { on_clock(CLOCK_TAI, TIMER_ABSTIME); }
CASE(relative_on_tai) { on_clock(CLOCK_TAI, 0); }

CASE(from_once_to_periodic_and_back) {
  block(RT);
  int id = timer_for(RT);
  siginfo_t info;
  setting now;
  arm(id, MS, 0);
  await(RT, &info);
  need(gettime(id, &now) == 0);
  say("once: %d %d", ns_of(now.it_value) != 0, ns_of(now.it_interval) != 0);
  arm(id, MS, 2 * MS);
  for (int i = 0; i < 3; i++) await(RT, &info);
  need(gettime(id, &now) == 0);
  say("periodic: %d %ld", ns_of(now.it_value) > 0, now.it_interval.tv_nsec);
  arm(id, MS, 0);
  await(RT, &info);
  say("overrun %d", info.si_overrun);
  usleep(10000);
  say("more %d", take(RT, &info));
  need(delete(id) == 0);
}

CASE(the_first_comes_after_the_value_and_not_the_period) {
  block(RT);
  int id = timer_for(RT);
  int64_t from = now_on(CLOCK_MONOTONIC);
  arm(id, 3 * MS, 3600 * INT64_C(1000) * MS);
  siginfo_t info;
  await(RT, &info);
  must(now_on(CLOCK_MONOTONIC) >= from + 3 * MS);
  setting now;
  need(gettime(id, &now) == 0);
  say("next in an hour: %d", ns_of(now.it_value) > 3500 * INT64_C(1000) * MS);
  need(delete(id) == 0);
}

CASE(setting_forgets_the_overrun) {
  block(RT);
  int id = timer_for(RT);
  arm(id, MS, MS);
  usleep(15000);
  siginfo_t info;
  await(RT, &info);
  must(info.si_overrun >= 13 && overrun_of(id) == info.si_overrun);
  arm(id, 1000 * MS, 0);
  say("after setting %s", result(overrun_of(id)));
  arm(id, 0, 0);
  say("after disarming %s", result(overrun_of(id)));
  need(delete(id) == 0);
}

CASE(the_overrun_stays_until_the_next_delivery) {
  block(RT);
  int id = timer_for(RT);
  arm(id, MS, 2 * MS);
  usleep(12000);
  siginfo_t info;
  await(RT, &info);
  long first = overrun_of(id);
  setting now;
  need(gettime(id, &now) == 0);
  usleep(9000);
  say("stays %d", overrun_of(id) == first);
  await(RT, &info);
  say("follows %d", overrun_of(id) == info.si_overrun);
  need(delete(id) == 0);
}

CASE(what_stands_in_the_information) {
  block(RT);
  struct sigevent event = by_signal(RT);
  event.sigev_value.sival_ptr = (void *)0x123456789abcdef0;
  int id = -1;
  need(create(CLOCK_MONOTONIC, &event, &id) == 0);
  arm(id, MS, 0);
  siginfo_t info;
  memset(&info, 0xff, sizeof info);
  await(RT, &info);
  say("signal %d, error %d, code %d", info.si_signo == RT, info.si_errno, info.si_code);
  say("id %d, overrun %d, value %d", info.si_timerid == id, info.si_overrun,
      info.si_value.sival_ptr == event.sigev_value.sival_ptr);
  int rest[24];
  memcpy(rest, (char *)&info + 32, sizeof rest);
  int not_zero = 0;
  for (int i = 0; i < 24; i++) not_zero += rest[i] != 0;
  say("what the kernel keeps to itself: %d", not_zero);
  need(delete(id) == 0);
}

CASE(an_exact_id_without_an_event_is_the_value) {
  block(SIGALRM);
  need(prctl(PR_TIMER_CREATE_RESTORE_IDS, 1, 0, 0, 0) == 0);
  int id = 4321;
  say("create %s", result(create(CLOCK_MONOTONIC, NULL, &id)));
  need(prctl(PR_TIMER_CREATE_RESTORE_IDS, 0, 0, 0, 0) == 0);
  arm(id, MS, 0);
  siginfo_t info;
  await(SIGALRM, &info);
  say("id %d, value %d", info.si_timerid, info.si_value.sival_int);
  need(delete(id) == 0);
}

CASE(an_exact_id_again_while_a_signal_of_the_old_is_pending) {
  block(RT);
  need(prctl(PR_TIMER_CREATE_RESTORE_IDS, 1, 0, 0, 0) == 0);
  struct sigevent event = by_signal(RT);
  int id = 777;
  need(create(CLOCK_MONOTONIC, &event, &id) == 0);
  arm(id, MS, 0);
  while (!is_pending(RT)) usleep(1000);
  need(delete(id) == 0);
  event.sigev_value.sival_int = 2;
  say("create %s", result(create(CLOCK_MONOTONIC, &event, &id)));
  need(prctl(PR_TIMER_CREATE_RESTORE_IDS, 0, 0, 0, 0) == 0);
  siginfo_t info;
  say("the old one's %d", take(RT, &info));
  arm(id, MS, 0);
  await(RT, &info);
  say("the new one's %d", info.si_value.sival_int);
  need(delete(id) == 0);
}

CASE(queued_signals_and_timers_in_the_order_of_sending) {
  block(RT);
  int id = timer_for(RT);
  need(sigqueue(getpid(), RT, (union sigval){.sival_int = 1}) == 0);
  arm(id, MS, 0);
  until_expired(id);
  need(sigqueue(getpid(), RT, (union sigval){.sival_int = 3}) == 0);
  siginfo_t info;
  for (int i = 0; i < 3; i++) {
    need(take(RT, &info) == RT);
    say("code %d", info.si_code);
  }
  say("more %d", take(RT, &info));
  need(delete(id) == 0);
}

CASE(the_lower_number_first) {
  sigset_t set;
  sigemptyset(&set);
  int ids[3];
  for (int i = 0; i < 3; i++) {
    block(SIGRTMIN + 5 - i);
    sigaddset(&set, SIGRTMIN + 5 - i);
    ids[i] = timer_for(SIGRTMIN + 5 - i);
    arm(ids[i], MS, 0);
    until_expired(ids[i]);
  }
  struct timespec none = {0, 0};
  for (int i = 0; i < 3; i++) say("SIGRTMIN+%d", sigtimedwait(&set, NULL, &none) - SIGRTMIN);
  for (int i = 0; i < 3; i++) need(delete(ids[i]) == 0);
}

static void kill_by_timer(void) {
  int id = timer_for(SIGKILL);
  arm(id, MS, 0);
  for (;;) pause();
}
CASE(a_timer_may_kill) { in_child("child", kill_by_timer); }

static void end_by_alarm(void) {
  int id = -1;
  need(create(CLOCK_MONOTONIC, NULL, &id) == 0);
  arm(id, MS, MS);
  for (;;) pause();
}
CASE(without_an_event_sigalrm_ends) { in_child("child", end_by_alarm); }

CASE(signals_that_the_library_keeps) {
  for (int signal = 32; signal <= 33; signal++) {
    struct sigevent event = by_signal(signal);
    int id = -1;
    say("%d: %s", signal, result(create(CLOCK_MONOTONIC, &event, &id)));
    need(delete(id) == 0);
  }
}

CASE(by_default_ignored_and_once) {
  int id = timer_for(SIGWINCH);
  arm(id, MS, 0);
  until_expired(id);
  handle(SIGWINCH);
  usleep(5000);
  say("handled %d", handled);
  setting now;
  need(gettime(id, &now) == 0);
  say("left %d", ns_of(now.it_value) != 0);
  need(delete(id) == 0);
}

CASE(told_by_thread_is_told_by_signal) {
  block(RT);
  struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_signo = RT};
  int id = -1;
  say("create %s", result(create(CLOCK_MONOTONIC, &event, &id)));
  arm(id, MS, 0);
  siginfo_t info;
  await(RT, &info);
  say("code %d", info.si_code);
  need(delete(id) == 0);
}

static pid_t main_tid;
static void *aim_at_main(void *unused) {
  (void)unused;
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = RT, .sigev_notify_thread_id = main_tid};
  int id = -1;
  need(create(CLOCK_MONOTONIC, &event, &id) == 0);
  arm(id, MS, 0);
  return (void *)(intptr_t)id;
}
CASE(another_thread_aims_at_the_first) {
  handle(RT);
  main_tid = gettid();
  pthread_t other = start(aim_at_main, NULL);
  while (!handled) usleep(1000);
  say("in the first %d", last_tid == main_tid);
  void *id;
  need(pthread_join(other, &id) == 0);
  need(delete((int)(intptr_t)id) == 0);
}

static int own_id;
static atomic_int calls;
static void delete_it(int signal) {
  (void)signal;
  calls++;
  if (delete(own_id) != 0) calls += 100;
}
CASE(deleted_by_its_handler) {
  struct sigaction action = {.sa_handler = delete_it};
  need(sigaction(RT, &action, NULL) == 0);
  calls = 0;
  own_id = timer_for(RT);
  arm(own_id, MS, MS);
  while (!calls) usleep(1000);
  usleep(10000);
  say("calls %d", calls);
  say("delete %s", result(delete(own_id)));
}

static void set_it_again(int signal) {
  (void)signal;
  setting s = after(MS, 0);
  if (++calls < 5) settime(own_id, 0, &s, NULL);
}
CASE(set_anew_by_its_handler) {
  struct sigaction action = {.sa_handler = set_it_again};
  need(sigaction(RT, &action, NULL) == 0);
  calls = 0;
  own_id = timer_for(RT);
  arm(own_id, MS, 0);
  while (calls < 5) usleep(1000);
  usleep(5000);
  say("calls %d", calls);
  need(delete(own_id) == 0);
}

static void make_one(int signal) {
  (void)signal;
  calls++;
  struct sigevent event = by_signal(RT + 1);
  if (create(CLOCK_MONOTONIC, &event, &own_id) != 0) calls += 100;
}
CASE(made_by_a_handler) {
  struct sigaction action = {.sa_handler = make_one};
  need(sigaction(RT, &action, NULL) == 0);
  calls = 0;
  int id = timer_for(RT);
  arm(id, MS, 0);
  while (!calls) usleep(1000);
  say("calls %d", calls);
  say("delete %s %s", result(delete(id)), result(delete(own_id)));
}

CASE(it_ends_sigsuspend) {
  block(RT);
  handle(RT);
  int id = timer_for(RT);
  arm(id, 3 * MS, 0);
  sigset_t all;
  sigfillset(&all);
  sigdelset(&all, RT);
  int r = sigsuspend(&all);
  say("sigsuspend %d %s", r, errname(errno));
  say("handled %d", handled);
  need(delete(id) == 0);
}

static void slow(int signal) {
  (void)signal;
  calls++;
  if (calls == 1) usleep(12000);
}
CASE(a_slow_handler_is_not_interrupted_by_its_own) {
  struct sigaction action = {.sa_handler = slow};
  need(sigaction(RT, &action, NULL) == 0);
  calls = 0;
  int id = timer_for(RT);
  arm(id, MS, 2 * MS);
  while (calls < 2) usleep(1000);
  /* What came in the first was told by the second. */
  must(overrun_of(id) >= 0);
  need(delete(id) == 0);
  say("done");
}

CASE(of_many_every_second_is_deleted) {
  block(RT);
  static int ids[300];
  for (int i = 0; i < 300; i++) ids[i] = timer_for(RT);
  for (int i = 0; i < 300; i += 2) need(delete(ids[i]) == 0);
  int ok = 0, einval = 0;
  for (int i = 0; i < 300; i++) {
    setting s = after(MS, 0);
    if (settime(ids[i], 0, &s, NULL) == 0)
      ok++;
    else
      einval += errno == EINVAL;
  }
  siginfo_t info;
  int got = 0;
  for (; got < 150; got++) await(RT, &info);
  say("set %d, refused %d, told %d, more %d", ok, einval, got, take(RT, &info));
  for (int i = 1; i < 300; i += 2) need(delete(ids[i]) == 0);
}

CASE(taken_it_is_no_longer_pending) {
  block(RT);
  int id = timer_for(RT), other = timer_for(RT);
  arm(id, MS, 0);
  arm(other, MS, 0);
  until_expired(id);
  until_expired(other);
  siginfo_t info;
  say("pending %d", is_pending(RT));
  need(take(RT, &info) == RT);
  say("one left %d", is_pending(RT));
  need(take(RT, &info) == RT);
  say("none left %d", is_pending(RT));
  need(delete(id) == 0);
  need(delete(other) == 0);
}

static void child_and_parent(void) {
  handle(RT);
  int id = timer_for(RT);
  arm(id, MS, MS);
  while (!handled) usleep(1000);
  pid_t child = fork();
  if (child == 0) {
    handled = 0;
    usleep(10000);
    say("in the child %d", handled);
    int own = timer_for(RT);
    arm(own, MS, 0);
    while (!handled) usleep(1000);
    say("its own %d, the parent's again %s", last_id == own, own == id ? "0" : errname(0));
    _exit(0);
  }
  int status;
  while (waitpid(child, &status, 0) != child) need(errno == EINTR);
  say("child: %s", ended(status));
  handled = 0;
  while (!handled) usleep(1000);
  say("the parent's goes on");
}
CASE(a_child_has_its_own_and_the_parent_keeps_its) { in_child("parent", child_and_parent); }
