//@ root
/* What each scheduling call answers, case by case. */
#include "../check.h"
#include <sys/resource.h>

static const int policies[] = {-1, 0, 1, 2, 3, 4, 5, 8, 9, 100, INT_MAX, INT_MIN};

CASE(priority_ranges) {
  for (int policy = -2; policy <= 10; policy++) {
    if (policy == 6 || policy == 7) continue;
    say("policy %d: min %s", policy, result(sched_get_priority_min(policy)));
    say("policy %d: max %s", policy, result(sched_get_priority_max(policy)));
  }
  say("deadline: min %s", result(sched_get_priority_min(6)));
  say("deadline: max %s", result(sched_get_priority_max(6)));
  say("reset flag %s", result(sched_get_priority_max(SCHED_FIFO | SCHED_RESET_ON_FORK)));
}

/* Every policy with priorities around the limits; what was accepted is shown. */
CASE(setscheduler_table) {
  static const int priorities[] = {-1, 0, 1, 50, 99, 100, INT_MAX};
  for (int i = 0; i < COUNT(policies); i++) {
    for (int j = 0; j < COUNT(priorities); j++) {
      struct sched_param param = {.sched_priority = priorities[j]};
      long answer = syscall(SYS_sched_setscheduler, 0, policies[i], &param);
      say("policy %d, priority %d: %s", policies[i], priorities[j], result(answer));
      if (answer != 0) continue;
      must(syscall(SYS_sched_getparam, 0, &param) == 0);
      say("now policy %s, priority %d", result(syscall(SYS_sched_getscheduler, 0)), param.sched_priority);
    }
  }
}

CASE(setscheduler_refused) {
  struct sched_param param = {.sched_priority = 0};
  say("negative pid %s", result(syscall(SYS_sched_setscheduler, -1, SCHED_OTHER, &param)));
  say("no such pid %s", result(syscall(SYS_sched_setscheduler, 0x3ffffff0, SCHED_OTHER, &param)));
  say("no param %s", result(syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, NULL)));
  say("bad param %s", result(syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, (void *)8)));
  say("no param and negative pid %s", result(syscall(SYS_sched_setscheduler, -1, SCHED_OTHER, NULL)));
  say("no param and bad policy %s", result(syscall(SYS_sched_setscheduler, 0, 99, NULL)));
  say("bad policy, no such pid %s", result(syscall(SYS_sched_setscheduler, 0x3ffffff0, 99, &param)));
  say("bad param and bad policy %s", result(syscall(SYS_sched_setscheduler, 0, 99, (void *)8)));
  say("bad param, no such pid %s", result(syscall(SYS_sched_setscheduler, 0x3ffffff0, SCHED_OTHER, (void *)8)));
}

CASE(setparam) {
  static const int priorities[] = {-1, 0, 1, 99, 100};
  static const int kept[] = {SCHED_OTHER, SCHED_BATCH, SCHED_FIFO, SCHED_RR, SCHED_IDLE};
  for (int i = 0; i < COUNT(kept); i++) {
    struct sched_param param = {.sched_priority = kept[i] == SCHED_FIFO || kept[i] == SCHED_RR ? 5 : 0};
    need(sched_setscheduler(0, kept[i], &param) == 0);
    for (int j = 0; j < COUNT(priorities); j++) {
      param.sched_priority = priorities[j];
      say("policy %d, priority %d: %s", kept[i], priorities[j], result(syscall(SYS_sched_setparam, 0, &param)));
      must(sched_getscheduler(0) == kept[i]);
    }
  }
  struct sched_param param = {0};
  say("negative pid %s", result(syscall(SYS_sched_setparam, -1, &param)));
  say("no such pid %s", result(syscall(SYS_sched_setparam, 0x3ffffff0, &param)));
  say("no param %s", result(syscall(SYS_sched_setparam, 0, NULL)));
  say("bad param %s", result(syscall(SYS_sched_setparam, 0, (void *)8)));
}

CASE(getters_refused) {
  struct sched_param param;
  struct timespec time;
  say("getscheduler, negative %s", result(syscall(SYS_sched_getscheduler, -1)));
  say("getscheduler, no such pid %s", result(syscall(SYS_sched_getscheduler, 0x3ffffff0)));
  say("getparam, negative %s", result(syscall(SYS_sched_getparam, -1, &param)));
  say("getparam, no such pid %s", result(syscall(SYS_sched_getparam, 0x3ffffff0, &param)));
  say("getparam, no param %s", result(syscall(SYS_sched_getparam, 0, NULL)));
  say("getparam, bad param %s", result(syscall(SYS_sched_getparam, 0, (void *)8)));
  say("rr_get_interval, negative %s", result(syscall(SYS_sched_rr_get_interval, -1, &time)));
  say("rr_get_interval, no such pid %s", result(syscall(SYS_sched_rr_get_interval, 0x3ffffff0, &time)));
  say("rr_get_interval, bad place %s", result(syscall(SYS_sched_rr_get_interval, 0, (void *)8)));
}

CASE(intervals) {
  struct timespec time = {-1, -1};
  struct sched_param param = {.sched_priority = 5};
  need(sched_setscheduler(0, SCHED_FIFO, &param) == 0);
  must(sched_rr_get_interval(0, &time) == 0);
  say("fifo %ld ns", time.tv_sec * 1000000000 + time.tv_nsec);
  need(sched_setscheduler(0, SCHED_RR, &param) == 0);
  must(sched_rr_get_interval(0, &time) == 0);
  say("rr %ld ns", time.tv_sec * 1000000000 + time.tv_nsec);
}

CASE(reset_on_fork) {
  struct sched_param param = {.sched_priority = 5};
  static const int set[] = {SCHED_FIFO, SCHED_RR, SCHED_OTHER, SCHED_BATCH};
  for (int i = 0; i < COUNT(set); i++) {
    param.sched_priority = i < 2 ? 5 : 0;
    need(sched_setscheduler(0, set[i] | SCHED_RESET_ON_FORK, &param) == 0);
    if (i >= 2) need(setpriority(PRIO_PROCESS, 0, -5) == 0);
    say("policy %#lx", syscall(SYS_sched_getscheduler, 0));
    pid_t child = fork();
    if (child == 0) {
      must(sched_getparam(0, &param) == 0);
      say("in the child: policy %ld, priority %d, nice %d", syscall(SYS_sched_getscheduler, 0), param.sched_priority,
          getpriority(PRIO_PROCESS, 0));
      _exit(0);
    }
    waitpid(child, NULL, 0);
  }
}

CASE(inherited_by_fork) {
  struct sched_param param = {.sched_priority = 7};
  need(sched_setscheduler(0, SCHED_RR, &param) == 0);
  pid_t child = fork();
  if (child == 0) {
    must(sched_getparam(0, &param) == 0);
    say("in the child: policy %ld, priority %d", syscall(SYS_sched_getscheduler, 0), param.sched_priority);
    _exit(0);
  }
  waitpid(child, NULL, 0);
}

static void *show(void *unused) {
  (void)unused;
  struct sched_param param;
  must(sched_getparam(0, &param) == 0);
  say("thread: policy %#lx, priority %d, nice %d", syscall(SYS_sched_getscheduler, 0), param.sched_priority,
      getpriority(PRIO_PROCESS, 0));
  return NULL;
}

CASE(inherited_by_threads) {
  struct sched_param param = {.sched_priority = 7};
  need(setpriority(PRIO_PROCESS, 0, 4) == 0);
  finish(start(show, NULL));
  need(sched_setscheduler(0, SCHED_FIFO, &param) == 0);
  finish(start(show, NULL));
  need(sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param) == 0);
  finish(start(show, NULL));
}

static _Atomic pid_t other;
static atomic_bool stop;
static void *wait_here(void *unused) {
  other = gettid();
  /* Asleep: as a real-time thread that yields it would keep the only CPU. */
  while (!stop) sleep_ms(1);
  return unused;
}

CASE(of_another_thread) {
  struct sched_param param = {.sched_priority = 12};
  other = 0;
  stop = false;
  pthread_t thread = start(wait_here, NULL);
  wait_until(other);
  say("set %s", result(sched_setscheduler(other, SCHED_RR, &param)));
  say("mine %s", result(sched_getscheduler(0)));
  say("the other's %s", result(sched_getscheduler(other)));
  param.sched_priority = 0;
  must(sched_getparam(other, &param) == 0);
  say("priority %d", param.sched_priority);
  param.sched_priority = 0;
  say("back %s", result(sched_setscheduler(other, SCHED_IDLE, &param)));
  say("the other's %s", result(sched_getscheduler(other)));
  stop = true;
  finish(thread);
  settle();
  say("when it has ended %s", result(sched_getscheduler(other)));
}

CASE(by_the_pthread_interface) {
  struct sched_param param = {.sched_priority = 3};
  int policy;
  say("set %s", errname(pthread_setschedparam(pthread_self(), SCHED_FIFO, &param)));
  say("prio %s", errname(pthread_setschedprio(pthread_self(), 9)));
  must(pthread_getschedparam(pthread_self(), &policy, &param) == 0);
  say("policy %d priority %d", policy, param.sched_priority);
  say("bad priority %s", errname(pthread_setschedprio(pthread_self(), 100)));
  say("bad policy %s", errname(pthread_setschedparam(pthread_self(), 50, &param)));
  param.sched_priority = 1;
  say("priority for other %s", errname(pthread_setschedparam(pthread_self(), SCHED_OTHER, &param)));
}
