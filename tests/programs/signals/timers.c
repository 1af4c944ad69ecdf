/* POSIX timers, by each way of notification. */
#include "../check.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static atomic_int count, value_seen, code_seen;
static _Atomic pid_t tid_seen;

static void note_it(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  value_seen = info->si_value.sival_int;
  code_seen = info->si_code;
  tid_seen = gettid();
  count++;
}

static void install(int signal) {
  struct sigaction action = {.sa_sigaction = note_it, .sa_flags = SA_SIGINFO | SA_RESTART};
  need(sigaction(signal, &action, NULL) == 0);
}

static void arm(timer_t timer, int64_t first, int64_t interval, int flags) {
  struct itimerspec time = {.it_value = timespec_of(first), .it_interval = timespec_of(interval)};
  need(timer_settime(timer, flags, &time, NULL) == 0);
}

static void periodic(clockid_t clock) {
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 42};
  timer_t timer;
  install(SIGUSR1);
  need(timer_create(clock, &event, &timer) == 0);
  count = 0;
  int64_t before = now_ns(clock);
  arm(timer, 10000000, 3000000, 0);
  wait_until(count >= 10);
  /* Ten signals stand for at least ten expiries. */
  must(now_ns(clock) - before >= 10000000 + 9 * 3000000);
  struct itimerspec left;
  must(timer_gettime(timer, &left) == 0 && left.it_interval.tv_nsec == 3000000);
  must(left.it_value.tv_sec == 0 && left.it_value.tv_nsec <= 3000000 && left.it_value.tv_nsec > 0);
  say("value %d, code %d", value_seen, code_seen);
  say("delete %s", result(timer_delete(timer)));
  int seen = count;
  sleep_ms(20);
  must(count - seen <= 1);
}

CASE(signal_monotonic) { periodic(CLOCK_MONOTONIC); }
CASE(signal_realtime) { periodic(CLOCK_REALTIME); }

CASE(absolute_time) {
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
  timer_t timer;
  install(SIGUSR1);
  need(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  for (int ms = -10; ms <= 20; ms += 10) {
    int64_t until = now_ns(CLOCK_MONOTONIC) + ms * INT64_C(1000000);
    count = 0;
    arm(timer, until, 0, TIMER_ABSTIME);
    wait_until(count == 1);
    must(now_ns(CLOCK_MONOTONIC) >= until);
    say("%d ms: came", ms);
  }
  timer_delete(timer);
}

/* While its signal is blocked, expiries are counted and not queued. */
CASE(overruns) {
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
  timer_t timer;
  sigset_t set;
  siginfo_t info;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  need(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  int64_t start_time = now_ns(CLOCK_MONOTONIC);
  arm(timer, 1000000, 1000000, 0);
  sleep_ms(50);
  must(sigwaitinfo(&set, &info) == SIGUSR1);
  int overrun = timer_getoverrun(timer);
  int64_t expiries = (now_ns(CLOCK_MONOTONIC) - start_time) / 1000000;
  must(overrun >= 40 && overrun + 1 <= expiries);
  must(info.si_overrun == overrun);
  timer_delete(timer);
  say("done");
}

static atomic_int thread_calls, thread_value;
static void on_thread(union sigval value) {
  thread_value = value.sival_int;
  thread_calls++;
}

CASE(thread_notification) {
  struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = on_thread, .sigev_value.sival_int = 7};
  timer_t timer;
  need(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  arm(timer, 5000000, 5000000, 0);
  wait_until(thread_calls >= 5);
  say("value %d, delete %s", thread_value, result(timer_delete(timer)));
}

static atomic_bool stop;
static _Atomic pid_t tids[3];
static void *be_aimed_at(void *index) {
  tids[(intptr_t)index] = gettid();
  while (!stop) {
    if ((intptr_t)index == 1) usleep(1000);
  }
  return NULL;
}

/* To one thread, whether it runs or sleeps. */
CASE(aimed_at_a_thread) {
  pthread_t threads[3];
  install(SIGUSR1);
  stop = false;
  for (intptr_t i = 0; i < 3; i++) threads[i] = start(be_aimed_at, (void *)i);
  for (int i = 0; i < 3; i++) {
    wait_until(tids[i]);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1, .sigev_notify_thread_id = tids[i]};
    timer_t timer;
    need(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    for (int j = 0; j < 10; j++) {
      count = 0;
      arm(timer, 1000000, 0, 0);
      wait_until(count == 1);
      must(tid_seen == tids[i]);
    }
    must(timer_delete(timer) == 0);
  }
  stop = true;
  for (int i = 0; i < 3; i++) finish(threads[i]);
  say("done");
}

CASE(refused) {
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
  int id;
  for (int clock = -3; clock <= 14; clock++) {
    if (clock == 8 || clock == 9) continue; /* alarm clocks need a capability */
    long answer = syscall(SYS_timer_create, clock, &event, &id);
    say("clock %d: %s", clock, answer == 0 ? "ok" : errname(errno));
    if (answer == 0) must(syscall(SYS_timer_delete, id) == 0);
  }
  event.sigev_signo = 65;
  say("signal 65: %s", result(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &id)));
  event = (struct sigevent){.sigev_notify = 77};
  say("notification 77: %s", result(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &id)));
  event = (struct sigevent){.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1, .sigev_notify_thread_id = 0x3ffffff0};
  say("nobody's tid: %s", result(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &id)));
  say("bad event %s", result(syscall(SYS_timer_create, CLOCK_MONOTONIC, (void *)8, &id)));
  say("bad place %s", result(syscall(SYS_timer_create, CLOCK_MONOTONIC, NULL, (void *)8)));
  say("delete of none %s", result(syscall(SYS_timer_delete, 123456)));
  say("gettime of none %s", result(syscall(SYS_timer_gettime, 123456, &event)));
  say("overrun of none %s", result(syscall(SYS_timer_getoverrun, 123456)));
  need(timer_create(CLOCK_MONOTONIC, &(struct sigevent){.sigev_notify = SIGEV_NONE}, &timer) == 0);
  struct itimerspec bad = {.it_value = {0, -1}};
  say("bad time %s", result(timer_settime(timer, 0, &bad, NULL)));
  say("no time %s", result(timer_settime(timer, 0, NULL, NULL)));
}

CASE(not_inherited_by_fork) {
  struct sigevent event = {.sigev_notify = SIGEV_NONE};
  int id;
  need(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &id) == 0);
  pid_t child = fork();
  if (child == 0) {
    say("in the child: delete %s", result(syscall(SYS_timer_delete, id)));
    _exit(0);
  }
  waitpid(child, NULL, 0);
  say("in the parent: delete %s", result(syscall(SYS_timer_delete, id)));
}
