/* Timers on CPU clocks: of the process, of the thread, and of others by encoded ids. */
#include "raw.h"
#include <sys/times.h>

#define PROCESS_CLOCK(pid, which) ((~(int)(pid) << 3) | (which))
#define THREAD_CLOCK(tid, which) ((~(int)(tid) << 3) | 4 | (which))
enum { PROF, VIRT, SCHED };

static int64_t reading(clockid_t clock) {
  struct timespec t;
  need(clock_gettime(clock, &t) == 0);
  return ns_of(t);
}

static void consume(clockid_t clock, int64_t ns) {
  for (int64_t until = reading(clock) + ns; reading(clock) < until;) continue;
}

/* The tick that expires it comes when the host lets it. */
static void consume_until_pending(clockid_t clock, int signal) {
  while (!is_pending(signal)) consume(clock, MS);
}

static int timer_on(clockid_t clock, int signal) {
  struct sigevent event = by_signal(signal);
  int id = -1;
  need(create(clock, &event, &id) == 0);
  return id;
}

static void who_may(void) {
  struct {
    const char *name;
    int clock;
  } clocks[] = {
      {"process", CLOCK_PROCESS_CPUTIME_ID},
      {"thread", CLOCK_THREAD_CPUTIME_ID},
      {"own process, prof", PROCESS_CLOCK(0, PROF)},
      {"own process, virt", PROCESS_CLOCK(0, VIRT)},
      {"own process, sched", PROCESS_CLOCK(0, SCHED)},
      {"own process by id", PROCESS_CLOCK(getpid(), SCHED)},
      {"own thread, prof", THREAD_CLOCK(0, PROF)},
      {"own thread, virt", THREAD_CLOCK(0, VIRT)},
      {"own thread by id", THREAD_CLOCK(gettid(), SCHED)},
      {"parent", PROCESS_CLOCK(getppid(), SCHED)},
      {"parent as a thread", THREAD_CLOCK(getppid(), SCHED)},
      {"nobody", PROCESS_CLOCK(0x3ffffff, SCHED)},
      {"nobody's thread", THREAD_CLOCK(0x3ffffff, SCHED)},
      {"fourth of a process", PROCESS_CLOCK(0, 3)},
      {"fourth of a thread", THREAD_CLOCK(0, 3)},
  };
  for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++) {
    int id = -1;
    say("%s: %s", clocks[i].name, result(create(clocks[i].clock, NULL, &id)));
    if (id >= 0) say("delete %s", result(delete(id)));
  }
}
CASE(whose_clocks_can_have_timers) { in_child("child", who_may); }

static void *give_tid(void *at) {
  *(_Atomic pid_t *)at = gettid();
  return NULL;
}
CASE(the_clock_of_a_dead_thread) {
  static _Atomic pid_t tid;
  finish(start(give_tid, (void *)&tid));
  int id;
  /* It is forgotten a moment after it was joined. */
  while (create(THREAD_CLOCK(tid, SCHED), NULL, &id) == 0) {
    need(delete(id) == 0);
    usleep(1000);
  }
  say("create %s", errname(errno));
}

static pthread_barrier_t both;
static void *live_a_while(void *at) {
  *(_Atomic pid_t *)at = gettid();
  pthread_barrier_wait(&both);
  pthread_barrier_wait(&both);
  return NULL;
}
CASE(a_timer_outlives_its_clock) {
  static _Atomic pid_t tid;
  pthread_barrier_init(&both, NULL, 2);
  pthread_t other = start(live_a_while, (void *)&tid);
  pthread_barrier_wait(&both);
  int id = timer_on(THREAD_CLOCK(tid, SCHED), SIGRTMIN);
  setting s = after(1000 * MS, 5 * MS), now;
  say("arm %s", result(settime(id, 0, &s, NULL)));
  say("get %s", result(gettime(id, &now)));
  must(ns_of(now.it_value) > 0 && ns_of(now.it_interval) == 5 * MS);
  pthread_barrier_wait(&both);
  finish(other);
  /* The host forgets a thread a moment after it was joined. */
  while (settime(id, 0, &s, NULL) == 0) usleep(1000);
  say("arm %s", errname(errno));
  say("get %s", result(gettime(id, &now)));
  say("value %d interval %d", ns_of(now.it_value) != 0, ns_of(now.it_interval) != 0);
  say("overrun %s", result(overrun_of(id)));
  say("delete %s", result(delete(id)));
}

CASE(never_early_by_consumption) {
  block(SIGRTMIN);
  for (int i = 0; i < 4; i++) {
    clockid_t clock = (clockid_t[]){CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, PROCESS_CLOCK(0, PROF),
                                    THREAD_CLOCK(0, PROF)}[i];
    int id = timer_on(clock, SIGRTMIN);
    siginfo_t info;
    int64_t from = reading(clock);
    arm(id, 20 * MS, 0);
    while (!take(SIGRTMIN, &info)) consume(clock, MS / 10);
    must(reading(clock) >= from + 20 * MS);
    say("overrun %d, code %d", info.si_overrun, info.si_code == SI_TIMER);
    must(info.si_timerid == id);
    setting now;
    need(gettime(id, &now) == 0);
    say("then %d %d", ns_of(now.it_value) != 0, ns_of(now.it_interval) != 0);
    need(delete(id) == 0);
  }
}

CASE(sleeping_consumes_nothing) {
  block(SIGRTMIN);
  int id = timer_on(CLOCK_PROCESS_CPUTIME_ID, SIGRTMIN), thread = timer_on(CLOCK_THREAD_CPUTIME_ID, SIGRTMIN);
  arm(id, 60 * MS, 0);
  arm(thread, 60 * MS, 0);
  usleep(150000);
  say("pending %d", is_pending(SIGRTMIN));
  setting left;
  need(gettime(id, &left) == 0);
  must(ns_of(left.it_value) > 20 * MS && ns_of(left.it_value) <= 60 * MS);
  need(delete(id) == 0);
  need(delete(thread) == 0);
}

CASE(periods_are_counted_at_delivery) {
  block(SIGRTMIN);
  int id = timer_on(CLOCK_THREAD_CPUTIME_ID, SIGRTMIN);
  int64_t from = reading(CLOCK_THREAD_CPUTIME_ID), seen = 0;
  arm(id, 5 * MS, 5 * MS);
  siginfo_t info;
  while (seen < 14) {
    consume(CLOCK_THREAD_CPUTIME_ID, 17 * MS);
    if (!take(SIGRTMIN, &info)) continue;
    seen += 1 + info.si_overrun;
    must(overrun_of(id) == info.si_overrun);
    must(reading(CLOCK_THREAD_CPUTIME_ID) >= from + seen * 5 * MS);
  }
  setting left;
  need(gettime(id, &left) == 0);
  must(ns_of(left.it_value) > 0 && ns_of(left.it_value) <= 5 * MS);
  need(delete(id) == 0);
  say("done");
}

CASE(an_absolute_past_expires_at_once) {
  block(SIGRTMIN);
  consume(CLOCK_PROCESS_CPUTIME_ID, 5 * MS);
  for (int i = 0; i < 2; i++) {
    int id = timer_on((clockid_t[]){CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID}[i], SIGRTMIN);
    setting s = after(1, 0);
    say("set %s", result(settime(id, TIMER_ABSTIME, &s, NULL)));
    say("pending %d", is_pending(SIGRTMIN));
    siginfo_t info;
    say("taken %d", take(SIGRTMIN, &info) == SIGRTMIN);
    need(delete(id) == 0);
  }
}

CASE(set_anew_the_old_expiry_means_nothing) {
  block(SIGRTMIN);
  int id = timer_on(CLOCK_THREAD_CPUTIME_ID, SIGRTMIN);
  arm(id, 3 * MS, 0);
  consume_until_pending(CLOCK_THREAD_CPUTIME_ID, SIGRTMIN);
  setting s = after(3600 * 1000 * MS, 0), old;
  const char *answer = result(settime(id, 0, &s, &old));
  say("set %s, old %d", answer, ns_of(old.it_value) != 0);
  siginfo_t info;
  say("taken %d", take(SIGRTMIN, &info));
  s = after(0, 7 * MS);
  answer = result(settime(id, 0, &s, &old));
  say("disarm %s, old %d", answer, ns_of(old.it_value) > 3599 * INT64_C(1000000000));
  need(gettime(id, &old) == 0);
  say("interval forgotten %d", ns_of(old.it_interval) == 0);
  need(delete(id) == 0);
}

CASE(nobody_is_told_and_time_goes_on) {
  struct sigevent event = {.sigev_notify = SIGEV_NONE};
  int id = -1;
  need(create(CLOCK_THREAD_CPUTIME_ID, &event, &id) == 0);
  arm(id, 2 * MS, 0);
  consume(CLOCK_THREAD_CPUTIME_ID, 10 * MS);
  setting left;
  need(gettime(id, &left) == 0);
  say("once: %d", ns_of(left.it_value) == 0);
  arm(id, 2 * MS, 3 * MS);
  consume(CLOCK_THREAD_CPUTIME_ID, 10 * MS);
  need(gettime(id, &left) == 0);
  must(ns_of(left.it_value) > 0 && ns_of(left.it_value) <= 3 * MS);
  say("overrun %s", result(overrun_of(id)));
  need(delete(id) == 0);
}

static atomic_bool stop;
static void *spin(void *unused) {
  (void)unused;
  while (!stop) continue;
  return NULL;
}
CASE(all_threads_consume_for_the_process) {
  block(SIGRTMIN);
  stop = false;
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) threads[i] = start(spin, NULL);
  int64_t from = reading(CLOCK_PROCESS_CPUTIME_ID);
  int id = timer_on(CLOCK_PROCESS_CPUTIME_ID, SIGRTMIN);
  arm(id, 40 * MS, 0);
  siginfo_t info;
  await(SIGRTMIN, &info);
  must(reading(CLOCK_PROCESS_CPUTIME_ID) >= from + 40 * MS);
  stop = true;
  for (int i = 0; i < 3; i++) finish(threads[i]);
  need(delete(id) == 0);
  say("done");
}

static _Atomic pid_t its_tid;
static void *consume_and_take(void *unused) {
  (void)unused;
  its_tid = gettid();
  while (!stop) continue;
  return NULL;
}
CASE(another_thread_s_clock_and_a_signal_for_this_one) {
  block(SIGRTMIN);
  stop = false;
  its_tid = 0;
  pthread_t other = start(consume_and_take, NULL);
  while (!its_tid) sched_yield();
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN, .sigev_notify_thread_id = gettid()};
  int id = -1;
  need(create(THREAD_CLOCK(its_tid, SCHED), &event, &id) == 0);
  int64_t from = reading(THREAD_CLOCK(its_tid, SCHED));
  arm(id, 10 * MS, 10 * MS);
  for (int64_t expiries = 0; expiries < 4;) {
    siginfo_t info;
    await(SIGRTMIN, &info);
    expiries += 1 + info.si_overrun;
    must(reading(THREAD_CLOCK(its_tid, SCHED)) >= from + expiries * 10 * MS);
  }
  stop = true;
  finish(other);
  need(delete(id) == 0);
  say("done");
}

CASE(ignored_and_back) {
  set_disposition(SIGRTMIN, SIG_IGN);
  int id = timer_on(CLOCK_THREAD_CPUTIME_ID, SIGRTMIN);
  arm(id, 4 * MS, 4 * MS);
  consume(CLOCK_THREAD_CPUTIME_ID, 42 * MS);
  handle(SIGRTMIN);
  while (!handled) consume(CLOCK_THREAD_CPUTIME_ID, MS / 10);
  must(first_overrun >= 8 && last_id == id);
  need(delete(id) == 0);
  set_disposition(SIGRTMIN, SIG_DFL);
  say("done");
}

CASE(thirty_at_the_same_moment_all_come) {
  block(SIGRTMIN);
  int ids[30];
  setting s = after(reading(CLOCK_THREAD_CPUTIME_ID) + 15 * MS, 0);
  for (int i = 0; i < 30; i++) {
    ids[i] = timer_on(CLOCK_THREAD_CPUTIME_ID, SIGRTMIN);
    need(settime(ids[i], TIMER_ABSTIME, &s, NULL) == 0);
  }
  int got = 0;
  siginfo_t info;
  while (got < 30) {
    consume(CLOCK_THREAD_CPUTIME_ID, MS);
    while (take(SIGRTMIN, &info)) got++;
  }
  for (int i = 0; i < 30; i++) need(delete(ids[i]) == 0);
  say("got %d", got);
}

CASE(a_deleted_one_says_nothing) {
  block(SIGRTMIN);
  int id = timer_on(CLOCK_THREAD_CPUTIME_ID, SIGRTMIN);
  arm(id, 2 * MS, 2 * MS);
  consume_until_pending(CLOCK_THREAD_CPUTIME_ID, SIGRTMIN);
  need(delete(id) == 0);
  siginfo_t info;
  say("taken %d", take(SIGRTMIN, &info));
  say("pending %d", is_pending(SIGRTMIN));
}
