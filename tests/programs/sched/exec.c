//@ privileged
//@ cpus: default
/* What execve keeps of the thread that makes it: policy, priority, nice value, affinity, timer slack. */
#include "../check.h"
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>

extern char **environ;

/* Runs first in the new program, before main chooses a case. */
__attribute__((constructor)) static void show(void) {
  const char *name = getenv("SHOW");
  if (!name) return;
  check_current = name;
  cpu_set_t set;
  struct sched_param param;
  need(sched_getaffinity(0, sizeof set, &set) == 0 && sched_getparam(0, &param) == 0);
  int policy = sched_getscheduler(0);
  /* Newer hosts answer 0 for real-time threads. */
  bool real_time = param.sched_priority > 0;
  say("policy %d%s, priority %d, nice %d, %s CPU, CPU 0 %d, slack %d", policy & ~SCHED_RESET_ON_FORK,
      policy & SCHED_RESET_ON_FORK ? " reset on fork" : "", param.sched_priority, getpriority(PRIO_PROCESS, 0),
      CPU_COUNT(&set) == 1 ? "one" : "any", CPU_ISSET(0, &set), real_time ? 0 : prctl(PR_GET_TIMERSLACK));
  _exit(0);
}

static void become(void) {
  setenv("SHOW", check_current, 1);
  execl("/proc/self/exe", "exec", (char *)NULL);
  _exit(97);
}

static void pinned(void) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(0, &set);
  need(sched_setaffinity(0, sizeof set, &set) == 0);
}

static void policy(int policy, int priority) {
  need(sched_setscheduler(0, policy, &(struct sched_param){priority}) == 0);
}

static void nothing(void) { become(); }
static void nicer(void) {
  need(nice(7) == 7);
  become();
}
static void fifo(void) {
  policy(SCHED_FIFO, 10);
  become();
}
static void round_robin(void) {
  policy(SCHED_RR | SCHED_RESET_ON_FORK, 3);
  become();
}
static void batch(void) {
  need(nice(3) == 3);
  policy(SCHED_BATCH, 0);
  pinned();
  become();
}
static void slack(void) {
  need(prctl(PR_SET_TIMERSLACK, 12345) == 0);
  become();
}

CASE(defaults) { in_child("child", nothing); }
CASE(nice_value) { in_child("child", nicer); }
CASE(real_time) { in_child("child", fifo); }
CASE(reset_on_fork) { in_child("child", round_robin); }
CASE(fair_and_pinned) { in_child("child", batch); }
CASE(timer_slack) { in_child("child", slack); }

/* A thread's own policy is what its exec keeps. */
static void *exec_in_thread(void *unused) {
  policy(SCHED_FIFO, 5);
  pinned();
  become();
  return unused;
}

static void by_thread(void) { finish(start(exec_in_thread, NULL)); }

CASE(thread) { in_child("child", by_thread); }

/* Over fork and exec, and over posix_spawn. */
static void spawn_one(void) {
  pinned();
  need(nice(4) == 4);
  setenv("SHOW", check_current, 1);
  pid_t child;
  char *const arguments[] = {"exec", NULL};
  need(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ) == 0);
  int status;
  need(waitpid(child, &status, 0) == child);
  say("spawned: %s", ended(status));
  child = fork();
  if (child == 0) become();
  need(waitpid(child, &status, 0) == child);
  say("forked: %s", ended(status));
}

CASE(children) { in_child("child", spawn_one); }

/* The usual commands in front of a program. */
static void shell(const char *command) {
  fflush(NULL);
  say("%s: %s", command, ended(system(command)));
}

CASE(commands) {
  shell("nice -n 5 nice");
  shell("nice -n 2 nice -n 3 nice");
  shell("taskset -c 0 sh -c 'exec taskset -p $$' | sed s/.*:.//");
  shell("chrt -f 10 sh -c 'exec chrt -p 0' | sed s/.*:.//");
  shell("chrt -b 0 nice -n 3 sh -c 'nice; exec chrt -p 0' | sed s/.*:.//");
}
