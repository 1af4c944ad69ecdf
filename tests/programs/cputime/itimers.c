//@ seconds: 240
/* ITIMER_VIRTUAL and ITIMER_PROF: errors, edges, what survives fork and exec. */
#include "../check.h"
#include <sys/resource.h>
#include <sys/time.h>

#define MS INT64_C(1000000)

static atomic_int prof, virt;
static atomic_int code;

static void count(int signal, siginfo_t *info, void *context) {
  (void)context;
  atomic_store(&code, info->si_code);
  atomic_fetch_add(signal == SIGPROF ? &prof : &virt, 1);
}

static void handle(void) {
  struct sigaction action = {.sa_sigaction = count, .sa_flags = SA_SIGINFO | SA_RESTART};
  need(sigaction(SIGPROF, &action, NULL) == 0 && sigaction(SIGVTALRM, &action, NULL) == 0);
  atomic_store(&prof, 0), atomic_store(&virt, 0);
}

static void use_cpu(int64_t ns) {
  int64_t end = now_ns(CLOCK_THREAD_CPUTIME_ID) + ns;
  while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end) {}
}

/* Not by system calls, so that it is user time. */
static void burn_until(atomic_int *counter, int many) {
  int64_t limit = now_ns(CLOCK_MONOTONIC) + 30000 * MS;
  while (atomic_load(counter) < many) {
    for (volatile int i = 0; i < 200000; i++) {}
    need(now_ns(CLOCK_MONOTONIC) < limit);
  }
}

static struct itimerval value_of(long value_us, long interval_us) {
  return (struct itimerval){.it_value = {value_us / 1000000, value_us % 1000000},
                            .it_interval = {interval_us / 1000000, interval_us % 1000000}};
}

static void disarm(void) {
  struct itimerval none = value_of(0, 0);
  need(setitimer(ITIMER_PROF, &none, NULL) == 0 && setitimer(ITIMER_VIRTUAL, &none, NULL) == 0);
}

CASE(refused) {
  struct itimerval good = value_of(1000000, 0), old;
  static const int kinds[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF, 3, -1, 1000};
  for (int i = 0; i < COUNT(kinds); i++) {
    int kind = kinds[i];
    say("%d: get %s", kind, result(syscall(SYS_getitimer, kind, &old)));
    say("%d: get, no place %s", kind, result(syscall(SYS_getitimer, kind, NULL)));
    say("%d: get, bad place %s", kind, result(syscall(SYS_getitimer, kind, (void *)8)));
    say("%d: bad new %s", kind, result(syscall(SYS_setitimer, kind, (void *)8, &old)));
    struct itimerval bad[] = {value_of(0, 0), value_of(0, 0), value_of(0, 0), value_of(0, 0), value_of(0, 0)};
    bad[0].it_value.tv_usec = 1000000, bad[1].it_value.tv_usec = -1, bad[2].it_value.tv_sec = -1;
    bad[3].it_interval.tv_usec = 1000000, bad[4].it_interval.tv_sec = -1;
    for (int j = 0; j < COUNT(bad); j++)
      say("%d: bad value %d %s", kind, j, result(syscall(SYS_setitimer, kind, &bad[j], &old)));
    say("%d: good %s", kind, result(syscall(SYS_setitimer, kind, &good, NULL)));
    say("%d: no new value %s", kind, result(syscall(SYS_setitimer, kind, NULL, &old)));
    need(syscall(SYS_getitimer, kind, &old) == 0 || errno == EINVAL);
    if (kind >= 0 && kind < 3) must(old.it_value.tv_sec == 0 && old.it_value.tv_usec == 0);
  }
}

/* The fault comes after the effect. */
CASE(set_although_bad_old) {
  struct itimerval now, hour = value_of(3600000000, 5000000);
  for (int kind = ITIMER_VIRTUAL; kind <= ITIMER_PROF; kind++) {
    say("%d: %s", kind, result(syscall(SYS_setitimer, kind, &hour, (void *)8)));
    need(getitimer(kind, &now) == 0);
    say("%d: interval %ld", kind, (long)now.it_interval.tv_sec);
    must(now.it_value.tv_sec >= 3500);
  }
  disarm();
}

/* Disarming keeps the interval, but for ITIMER_REAL; the old value comes back. */
CASE(interval_is_kept) {
  struct itimerval armed = value_of(3600000000, 7000000), off = value_of(0, 3000000), now, old;
  for (int kind = ITIMER_REAL; kind <= ITIMER_PROF; kind++) {
    need(setitimer(kind, &armed, NULL) == 0);
    need(setitimer(kind, &off, &old) == 0);
    need(getitimer(kind, &now) == 0);
    say("%d: old interval %ld, value %d; interval %ld, value %ld %ld", kind, (long)old.it_interval.tv_sec,
        old.it_value.tv_sec >= 3599 && old.it_value.tv_sec <= 3600, (long)now.it_interval.tv_sec,
        (long)now.it_value.tv_sec, (long)now.it_value.tv_usec);
  }
  disarm();
}

CASE(huge_values) {
  struct itimerval huge = {.it_value = {INT64_MAX, 999999}, .it_interval = {INT64_MAX, 999999}};
  handle();
  for (int kind = ITIMER_VIRTUAL; kind <= ITIMER_PROF; kind++)
    say("%d: %s", kind, result(setitimer(kind, &huge, NULL)));
  use_cpu(20 * MS);
  say("signals %d", atomic_load(&prof) + atomic_load(&virt));
  disarm();
}

/* Never early, but for the first tick. How much that is by CLOCK_PROCESS_CPUTIME_ID is not promised: on Linux these timers
 * count whole ticks, for whoever runs when one comes (account_user_time), and on a busy machine that may be twice what the
 * process consumed. Real time bounds both, and is the same as that on an idle machine. */
CASE(once) {
  handle();
  struct itimerval once = value_of(50000, 0), now;
  int64_t before = now_ns(CLOCK_MONOTONIC);
  need(setitimer(ITIMER_PROF, &once, NULL) == 0);
  burn_until(&prof, 1);
  int64_t took = now_ns(CLOCK_MONOTONIC) - before;
  must(took >= 40 * MS);
  say("code %d", atomic_load(&code) == SI_KERNEL);
  use_cpu(30 * MS);
  say("signals %d", atomic_load(&prof));
  need(getitimer(ITIMER_PROF, &now) == 0);
  say("left %ld %ld", (long)now.it_value.tv_sec, (long)now.it_value.tv_usec);
}

CASE(again_and_again) {
  handle();
  struct itimerval often = value_of(10000, 10000);
  need(setitimer(ITIMER_PROF, &often, NULL) == 0 && setitimer(ITIMER_VIRTUAL, &often, NULL) == 0);
  int64_t before = now_ns(CLOCK_MONOTONIC);
  burn_until(&prof, 10);
  burn_until(&virt, 5);
  disarm();
  int64_t took = now_ns(CLOCK_MONOTONIC) - before;
  /* By real time, as above. */
  must(took / (10 * MS) + 3 >= atomic_load(&prof));
  int seen = atomic_load(&prof) + atomic_load(&virt);
  use_cpu(50 * MS);
  say("after the end %d", atomic_load(&prof) + atomic_load(&virt) - seen);
}

/* Nobody consumes anything: nothing happens. */
CASE(sleeping_does_not_count) {
  handle();
  struct itimerval it = value_of(100000, 0);
  need(setitimer(ITIMER_PROF, &it, NULL) == 0);
  sleep_ms(400);
  say("signals %d", atomic_load(&prof));
  disarm();
}

/* The consumption of all threads counts, and a thread that does not block the signal gets it. */
static void *burn(void *stop) {
  while (!atomic_load((atomic_int *)stop)) {}
  return NULL;
}

CASE(of_all_threads) {
  handle();
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPROF);
  atomic_int stop = 0;
  pthread_t threads[4];
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  for (int i = 0; i < COUNT(threads); i++) threads[i] = start(burn, &stop);
  struct itimerval it = value_of(20000, 0);
  need(setitimer(ITIMER_PROF, &it, NULL) == 0);
  int signal;
  need(sigwait(&set, &signal) == 0);
  say("signal %s, handled %d", sigabbrev_np(signal), atomic_load(&prof));
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  need(setitimer(ITIMER_PROF, &it, NULL) == 0);
  wait_until(atomic_load(&prof) == 1);
  atomic_store(&stop, 1);
  for (int i = 0; i < COUNT(threads); i++) finish(threads[i]);
}

static void default_action(void) {
  struct itimerval it = value_of(10000, 0);
  signal(SIGPROF, SIG_DFL);
  need(setitimer(ITIMER_PROF, &it, NULL) == 0);
  for (;;) {}
}

static void default_virtual(void) {
  struct itimerval it = value_of(10000, 0);
  signal(SIGVTALRM, SIG_DFL);
  need(setitimer(ITIMER_VIRTUAL, &it, NULL) == 0);
  for (;;) {}
}

CASE(unhandled) {
  in_child("prof", default_action);
  in_child("virtual", default_virtual);
}

static void look(void) {
  struct itimerval now;
  for (int kind = ITIMER_REAL; kind <= ITIMER_PROF; kind++) {
    need(getitimer(kind, &now) == 0);
    say("%d: armed %d, interval %ld", kind, now.it_value.tv_sec > 0, (long)now.it_interval.tv_sec);
  }
}

CASE(fork_clears) {
  struct itimerval hour = value_of(3600000000, 9000000);
  for (int kind = ITIMER_REAL; kind <= ITIMER_PROF; kind++) need(setitimer(kind, &hour, NULL) == 0);
  in_child("child", look);
  look();
  for (int kind = ITIMER_REAL; kind <= ITIMER_PROF; kind++) need(setitimer(kind, &(struct itimerval){0}, NULL) == 0);
}

static void arm_and_exec(void) {
  struct itimerval hour = value_of(3600000000, 9000000);
  for (int kind = ITIMER_REAL; kind <= ITIMER_PROF; kind++) need(setitimer(kind, &hour, NULL) == 0);
  say("no such program %s", result(execl("/nowhere/at/all", "x", NULL)));
  look();
  setenv("EXECUTED", "1", 1);
  execl("/proc/self/exe", "again", "exec_keeps", NULL);
}

CASE(exec_keeps) {
  if (getenv("EXECUTED")) {
    look();
    _exit(0);
  }
  in_child("after exec", arm_and_exec);
}
