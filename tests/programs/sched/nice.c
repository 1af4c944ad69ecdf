//@ root
/* nice, getpriority and setpriority; per thread, as Linux has it. */
#include "../check.h"
#include <sys/resource.h>

static const char *of(int which, int who) {
  errno = 0;
  int value = getpriority(which, who);
  return value == -1 && errno ? errname(errno) : value == -1 ? "-1" : result(value);
}

CASE(set_and_get) {
  static const int values[] = {0, 5, 19, 20, 1000, -5, -20, -21, -1000, 0};
  for (int i = 0; i < COUNT(values); i++) {
    long answer = setpriority(PRIO_PROCESS, 0, values[i]);
    say("set %d: %s", values[i], result(answer));
    say("got %s", of(PRIO_PROCESS, 0));
    say("raw %s", result(syscall(SYS_getpriority, PRIO_PROCESS, 0)));
  }
}

CASE(steps) {
  static const int steps[] = {3, 0, 100, -10, -100, 20};
  for (int i = 0; i < COUNT(steps); i++) {
    errno = 0;
    int value = nice(steps[i]);
    say("nice %d: %d %s", steps[i], value, errname(errno));
  }
}

CASE(refused) {
  say("get: what %s", of(3, 0));
  say("get: nobody %s", of(PRIO_PROCESS, 0x3ffffff0));
  say("get: negative %s", of(PRIO_PROCESS, -1));
  say("set: what %s", result(setpriority(-1, 0, 0)));
  say("set: nobody %s", result(setpriority(PRIO_PROCESS, 0x3ffffff0, 0)));
  say("set: negative %s", result(setpriority(PRIO_PROCESS, -1, 0)));
}

static atomic_int stage;
static _Atomic pid_t other;
static void *wait_here(void *unused) {
  (void)unused;
  other = gettid();
  wait_until(stage == 1);
  say("the other sees itself %s", of(PRIO_PROCESS, 0));
  setpriority(PRIO_PROCESS, 0, 9);
  stage = 2;
  wait_until(stage == 3);
  return NULL;
}

CASE(per_thread) {
  pthread_t thread = start(wait_here, NULL);
  wait_until(other);
  say("set of the other %s", result(setpriority(PRIO_PROCESS, other, 7)));
  say("mine %s, the other's %s", of(PRIO_PROCESS, 0), of(PRIO_PROCESS, other));
  stage = 1;
  wait_until(stage == 2);
  say("mine %s, the other's %s", of(PRIO_PROCESS, 0), of(PRIO_PROCESS, other));
  say("process %s", of(PRIO_PROCESS, getpid()));
  stage = 3;
  finish(thread);
}

static void *show(void *unused) {
  (void)unused;
  say("in a new thread %s", of(PRIO_PROCESS, 0));
  return NULL;
}

CASE(inherited) {
  need(setpriority(PRIO_PROCESS, 0, 6) == 0);
  finish(start(show, NULL));
  pid_t child = fork();
  if (child == 0) {
    say("in the child %s", of(PRIO_PROCESS, 0));
    _exit(0);
  }
  waitpid(child, NULL, 0);
}

/* A real-time thread has a nice value too, for later. */
CASE(kept_under_a_real_time_policy) {
  struct sched_param param = {.sched_priority = 5};
  need(setpriority(PRIO_PROCESS, 0, 3) == 0);
  need(sched_setscheduler(0, SCHED_FIFO, &param) == 0);
  say("with fifo %s", of(PRIO_PROCESS, 0));
  say("set %s", result(setpriority(PRIO_PROCESS, 0, 8)));
  say("with fifo %s", of(PRIO_PROCESS, 0));
  param.sched_priority = 0;
  need(sched_setscheduler(0, SCHED_OTHER, &param) == 0);
  say("with other %s", of(PRIO_PROCESS, 0));
}

CASE(of_the_process_group) {
  pid_t child = fork();
  if (child == 0) {
    need(setpgid(0, 0) == 0);
    pid_t members[2];
    for (int i = 0; i < 2; i++) {
      members[i] = fork();
      if (members[i] == 0) {
        pause();
        _exit(0);
      }
    }
    say("set %s", result(setpriority(PRIO_PGRP, 0, 11)));
    say("members %s %s", of(PRIO_PROCESS, members[0]), of(PRIO_PROCESS, members[1]));
    say("raise one %s", result(setpriority(PRIO_PROCESS, members[1], 15)));
    say("the group's is the highest of all: %s", of(PRIO_PGRP, 0));
    for (int i = 0; i < 2; i++) {
      kill(members[i], SIGKILL);
      waitpid(members[i], NULL, 0);
    }
    _exit(0);
  }
  waitpid(child, NULL, 0);
}

/* What a process and its threads give themselves counts against other processes, and they see it. */
static int told[2], asked[2];
static void next(void) {
  char byte = 0;
  need(write(told[1], &byte, 1) == 1 && read(asked[0], &byte, 1) == 1);
}
static void *to_nine(void *arg) {
  (void)arg;
  need(setpriority(PRIO_PROCESS, 0, 9) == 0);
  next();
  need(setpriority(PRIO_PROCESS, 0, 12) == 0);
  next();
  return NULL;
}
static void become_nicer(void) {
  need(setpriority(PRIO_PROCESS, 0, 7) == 0);
  next();
  need(setpriority(PRIO_PROCESS, 0, 9) == 0);
  finish(start(to_nine, NULL));
  pid_t child = fork();
  need(child >= 0);
  if (child == 0) {
    need(setpriority(PRIO_PROCESS, 0, 15) == 0);
    execl("/bin/sh", "sh", "-c", "nice; cut -d' ' -f19 /proc/$$/stat", NULL);
    _exit(1);
  }
  need(waitpid(child, NULL, 0) == child);
  next();
}
CASE(seen_by_others) {
  need(pipe(told) == 0 && pipe(asked) == 0);
  fflush(stdout);
  pid_t child = fork();
  need(child >= 0);
  if (child == 0) become_nicer(), _exit(0);
  for (int i = 0; i < 4; i++) {
    char byte;
    need(read(told[0], &byte, 1) == 1);
    say("%d: %s", i, of(PRIO_PROCESS, child));
    need(write(asked[1], &byte, 1) == 1);
  }
  need(waitpid(child, NULL, 0) == child);
}

static pid_t asker;
static void *ask(void *arg) {
  (void)arg;
  asker = syscall(SYS_gettid);
  next();
  say("thread %s", of(PRIO_PROCESS, 0));
  return NULL;
}
static void of_group(void) {
  char byte;
  need(setpgid(0, 0) == 0 && pipe(told) == 0 && pipe(asked) == 0);
  pthread_t thread = start(ask, NULL);
  need(read(told[0], &byte, 1) == 1);
  say("set %s", result(setpriority(PRIO_PGRP, 0, 5)));
  say("own %s, group %s", of(PRIO_PROCESS, 0), of(PRIO_PGRP, 0));
  need(write(asked[1], &byte, 1) == 1);
  finish(thread);
  /* Linux lets it be joined some time before it leaves the group. */
  wait_until(syscall(SYS_tgkill, getpid(), asker, 0) != 0);
  need(setpriority(PRIO_PROCESS, 0, 9) == 0);
  say("own %s, group %s", of(PRIO_PROCESS, 0), of(PRIO_PGRP, 0));
}
CASE(of_the_group) { in_child("child", of_group); }
