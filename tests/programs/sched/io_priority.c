/* ioprio_get(2), ioprio_set(2): each thread has a priority for I/O. */
#include "../check.h"
#include <sys/resource.h>

enum { PROCESS = 1, BEST_EFFORT = 2, IDLE = 3 };

static long get(pid_t id) { return syscall(SYS_ioprio_get, PROCESS, id); }
static long set(pid_t id, int class, int level) { return syscall(SYS_ioprio_set, PROCESS, id, class << 13 | level); }
static void show(const char *what, pid_t id) { say("%s %ld %ld", what, get(id) >> 13, get(id) & 0x1fff); }

/* A priority that was not given follows the policy, but that is not reported. */
static void policies(void) {
  show("first", 0);
  for (int nice = 0; nice < 20; nice += 6) {
    need(setpriority(PRIO_PROCESS, 0, nice) == 0);
    show("nicer", 0);
  }
  need(sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0}) == 0);
  show("batch", 0);
  need(sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0}) == 0);
  show("idle", 0);
  say("given %s", result(set(0, BEST_EFFORT, 1)));
  show("idle with its own", 0);
  say("taken %s", result(set(0, 0, 0)));
  show("idle without", 0);
}
CASE(beside_the_policy) { in_child("child", policies); }

static void errors(void) {
  say("no such thread %s", result(set(999999999, BEST_EFFORT, 1)));
  say("no such thread %s", result(get(999999999)));
  say("level %s", result(set(0, BEST_EFFORT, 8)));
  say("level of none %s", result(set(0, 0, 1)));
  say("class %s", result(set(0, 4, 0)));
  say("who %s", result(syscall(SYS_ioprio_get, 9, 0)));
  show("left", 0);
}
CASE(errors) { in_child("child", errors); }

static _Atomic pid_t tid;
static atomic_int step;
static void *without(void *unused) {
  show("without", 0);
  return unused;
}
static void inherited(void) { show("child of a thread", 0); }
static void *other(void *unused) {
  show("inherited", 0);
  need(set(0, BEST_EFFORT, 6) == 0);
  show("own", 0);
  show("of main", getpid());
  in_child("child", inherited);
  tid = gettid();
  wait_until(step == 1);
  show("given by another", 0);
  return unused;
}
static void threads(void) {
  finish(start(without, NULL));
  need(set(getpid(), BEST_EFFORT, 2) == 0);
  pthread_t thread = start(other, NULL);
  wait_until(tid);
  show("thread", tid);
  show("main", 0);
  say("set %s", result(set(tid, IDLE, 0)));
  show("thread", tid);
  show("main", getpid());
  step = 1;
  finish(thread);
  in_child("child of main", inherited);
}
CASE(each_thread_has_its_own) { in_child("process", threads); }

/* By itself it has no line of its own: the priority is the host's. */
CASE(in_a_program) {
  if (getenv("IO_PRIORITY")) show("now", 0);
}
static void *execute(void *unused) {
  need(set(0, BEST_EFFORT, 3) == 0);
  setenv("IO_PRIORITY", "1", 1);
  execl("/proc/self/exe", "io_priority", "in_a_program", NULL);
  return unused;
}
static void over_exec(void) {
  need(set(0, BEST_EFFORT, 7) == 0);
  finish(start(execute, NULL));
}
/* Another thread has been given one since. */
static void *set_and_execute(void *unused) {
  need(set(0, BEST_EFFORT, 4) == 0);
  step = 1;
  wait_until(step == 2);
  setenv("IO_PRIORITY", "1", 1);
  execl("/proc/self/exe", "io_priority", "in_a_program", NULL);
  return unused;
}
static void over_exec_after_another(void) {
  pthread_t thread = start(set_and_execute, NULL);
  wait_until(step == 1);
  need(set(0, BEST_EFFORT, 7) == 0);
  step = 2;
  finish(thread);
}
static void of_the_group(void) {
  need(setpgid(0, 0) == 0);
  say("set %s", result(syscall(SYS_ioprio_set, 2, getpid(), BEST_EFFORT << 13 | 5)));
  show("by the group's id", 0);
  say("set %s", result(syscall(SYS_ioprio_set, 2, 0, BEST_EFFORT << 13 | 3)));
  show("by 0", 0);
}
CASE(of_a_group) { in_child("child", of_the_group); }
CASE(stays_over_exec) {
  in_child("child", over_exec);
  in_child("child", over_exec_after_another);
}

static void by_vfork(void) {
  setenv("IO_PRIORITY", "1", 1);
  need(set(0, BEST_EFFORT, 5) == 0);
  pid_t child = vfork();
  if (child == 0) {
    execl("/proc/self/exe", "io_priority", "in_a_program", NULL);
    _exit(97);
  }
  need(waitpid(child, NULL, 0) == child);
}
CASE(of_a_vfork_child) { in_child("child", by_vfork); }
