//@ cpus: default
//@ seconds: 240
/* RLIMIT_CPU: errors, what the limits read, and which signals come in which order. */
#include "../check.h"
#include <spawn.h>
#include <sys/resource.h>
#include <sys/time.h>

extern char **environ;

static void show(const char *when) {
  struct rlimit now;
  need(getrlimit(RLIMIT_CPU, &now) == 0);
  say("%s: %ld %ld", when, (long)now.rlim_cur, (long)now.rlim_max);
}

static void refused(void) {
  struct rlimit bad = {5, 4}, good = {100, 200}, old;
  say("soft above hard %s", result(syscall(SYS_setrlimit, RLIMIT_CPU, &bad)));
  say("bad place %s", result(syscall(SYS_setrlimit, RLIMIT_CPU, (void *)8)));
  say("no place %s", result(syscall(SYS_setrlimit, RLIMIT_CPU, NULL)));
  say("get, bad place %s", result(syscall(SYS_getrlimit, RLIMIT_CPU, (void *)8)));
  say("get, no place %s", result(syscall(SYS_getrlimit, RLIMIT_CPU, NULL)));
  say("no such resource %s", result(syscall(SYS_prlimit64, 0, 16, NULL, &old)));
  say("no such process %s", result(syscall(SYS_prlimit64, 0x3fffffe, RLIMIT_CPU, NULL, &old)));
  say("prlimit, soft above hard %s", result(syscall(SYS_prlimit64, 0, RLIMIT_CPU, &bad, &old)));
  say("prlimit, bad new %s", result(syscall(SYS_prlimit64, 0, RLIMIT_CPU, (void *)8, &old)));
  say("prlimit, nothing %s", result(syscall(SYS_prlimit64, 0, RLIMIT_CPU, NULL, NULL)));
  say("prlimit, bad old %s", result(syscall(SYS_prlimit64, getpid(), RLIMIT_CPU, &good, (void *)8)));
  show("set all the same");
  good.rlim_cur = 50;
  say("prlimit %s", result(syscall(SYS_prlimit64, getpid(), RLIMIT_CPU, &good, &old)));
  say("old %ld %ld", (long)old.rlim_cur, (long)old.rlim_max);
  show("new");
}

CASE(errors) {
  show("at first");
  in_child("child", refused);
  show("at last");
}

static atomic_int exceeded;

static void count(int signal) {
  (void)signal;
  atomic_fetch_add(&exceeded, 1);
}

static void *burn(void *unused) {
  for (;;) {}
  return unused;
}

static void burn_with(int threads) {
  for (int i = 1; i < threads; i++) start(burn, NULL);
  burn(NULL);
}

static void limit(rlim_t soft, rlim_t hard) {
  struct rlimit new = {soft, hard};
  need(setrlimit(RLIMIT_CPU, &new) == 0);
}

static void report(int signal) {
  struct rlimit now;
  getrlimit(RLIMIT_CPU, &now);
  say("signal %s, then %ld %ld", sigabbrev_np(signal), (long)now.rlim_cur, (long)now.rlim_max);
}

static int threads = 1;

static void soft_unhandled(void) {
  limit(1, RLIM_INFINITY);
  burn_with(threads);
}

static void soft_then_hard(void) {
  signal(SIGXCPU, report);
  limit(1, 2);
  burn_with(threads);
}

static void hard_alone(void) {
  signal(SIGXCPU, report);
  limit(1, 1);
  burn_with(threads);
}

static void soft_of_nothing(void) {
  signal(SIGXCPU, report);
  limit(0, 1);
  burn_with(threads);
}

CASE(one_thread) {
  threads = 1;
  in_child("nobody handles it", soft_unhandled);
  in_child("soft, then hard", soft_then_hard);
  in_child("zero", soft_of_nothing);
}

CASE(eight_threads) {
  threads = 8;
  in_child("soft, then hard", soft_then_hard);
  in_child("both at once", hard_alone);
}

/* The signal comes again each second of CPU time. */
static void each_second(void) {
  signal(SIGXCPU, count);
  limit(0, RLIM_INFINITY);
  while (atomic_load(&exceeded) < 3) {}
  struct rlimit now;
  need(getrlimit(RLIMIT_CPU, &now) == 0);
  say("limit %ld", (long)now.rlim_cur);
}

CASE(every_second) {
  atomic_store(&exceeded, 0);
  in_child("child", each_second);
}

static void lifted(void) {
  limit(1, RLIM_INFINITY);
  limit(RLIM_INFINITY, RLIM_INFINITY);
  int64_t end = now_ns(CLOCK_PROCESS_CPUTIME_ID) + 1300000000;
  while (now_ns(CLOCK_PROCESS_CPUTIME_ID) < end) {}
}

CASE(lifted_in_time) { in_child("child", lifted); }

static void show_inherited(void) { show("inherited"); }

static void hand_down(void) {
  limit(77, 99);
  in_child("grandchild", show_inherited);
  pid_t child;
  setenv("EXECUTED", "1", 1);
  char *arguments[] = {"again", "inherited", NULL};
  need(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ) == 0);
  need(waitpid(child, NULL, 0) == child);
  show("after spawning");
  execl("/proc/self/exe", "again", "inherited", NULL);
}

CASE(inherited) {
  if (getenv("EXECUTED")) {
    show("after exec");
    _exit(0);
  }
  in_child("child", hand_down);
}

/* Natively nothing of it happens to a thread without a real-time policy. */
static void rttime(void) {
  struct rlimit new = {20000, 5000000}, now;
  need(setrlimit(RLIMIT_RTTIME, &new) == 0);
  need(getrlimit(RLIMIT_RTTIME, &now) == 0);
  say("rttime %ld %ld", (long)now.rlim_cur, (long)now.rlim_max);
  int64_t end = now_ns(CLOCK_PROCESS_CPUTIME_ID) + 100000000;
  while (now_ns(CLOCK_PROCESS_CPUTIME_ID) < end) {}
  new.rlim_cur = 6000000;
  say("soft above hard %s", result(setrlimit(RLIMIT_RTTIME, &new)));
}

CASE(rttime_of_others) { in_child("child", rttime); }
