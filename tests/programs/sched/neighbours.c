/* sched_*(2) on another process, and of a thread of it, and what that process sees of them. */
#include "../check.h"
#include "attr.h"

static pid_t main_id, other_id;
static cpu_set_t start_set;

static int nth_cpu(int n) {
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &start_set) && n-- == 0) return cpu;
  return -1;
}

/* In a child, which is another process. */
static void apart(void (*body)(pid_t), pid_t target) {
  pid_t child = fork();
  if (child == 0) {
    body(target);
    _exit(0);
  }
  int status;
  need(waitpid(child, &status, 0) == child);
  must(status == 0);
}

static void *wait_here(void *ends) {
  char byte;
  other_id = syscall(SYS_gettid);
  need(write(((int **)ends)[1][1], "x", 1) == 1);
  need(read(((int **)ends)[0][0], &byte, 1) == 1);
  return NULL;
}

/* Both the main thread and another one. */
static void on_both(void (*body)(pid_t), void (*look)(const char *, pid_t)) {
  int go[2], there[2], *ends[] = {go, there};
  char byte;
  main_id = getpid();
  CPU_ZERO(&start_set);
  need(sched_getaffinity(0, sizeof start_set, &start_set) == 0);
  need(pipe(go) == 0 && pipe(there) == 0);
  pthread_t other = start(wait_here, ends);
  need(read(there[0], &byte, 1) == 1);
  const pid_t ids[] = {main_id, other_id};
  for (int i = 0; i < 2; i++) {
    apart(body, ids[i]);
    look(i ? "other" : "main", ids[i]);
  }
  need(write(go[1], "x", 1) == 1);
  finish(other);
}

static void look_at_mask(const char *who, pid_t id) {
  cpu_set_t set;
  CPU_ZERO(&set);
  say("%s: getaffinity %s", who, result(sched_getaffinity(id, sizeof set, &set)));
  say("%s: %d CPU, the first %d", who, CPU_COUNT(&set), CPU_ISSET(nth_cpu(0), &set) != 0);
  if (id == main_id) must(sched_getcpu() == nth_cpu(0));
}
static void narrow(pid_t id) {
  cpu_set_t set;
  CPU_ZERO(&set);
  say("empty: %s", result(sched_setaffinity(id, sizeof set, &set)));
  CPU_SET(nth_cpu(0), &set);
  say("one: %s", result(sched_setaffinity(id, sizeof set, &set)));
  cpu_set_t seen;
  CPU_ZERO(&seen);
  say("seen: %s", result(sched_getaffinity(id, sizeof seen, &seen)));
  say("the same: %d", CPU_EQUAL(&set, &seen));
  say("bad place: %s", result(syscall(SYS_sched_setaffinity, id, sizeof set, (void *)8)));
  say("bad size: %s", result(syscall(SYS_sched_getaffinity, id, 4, &seen)));
}
CASE(affinity) { on_both(narrow, look_at_mask); }

static void look_at_policy(const char *who, pid_t id) {
  struct sched_param param = {.sched_priority = -1};
  say("%s: policy %#x", who, sched_getscheduler(id));
  say("%s: param %s", who, result(sched_getparam(id, &param)));
  say("%s: priority %d", who, param.sched_priority);
  struct attr attr;
  say("%s: getattr %s", who, result(syscall(SYS_sched_getattr, id, &attr, SIZE_1, 0)));
  say("%s: nice %d", who, attr.nice);
}
static void change(pid_t id) {
  struct sched_param param = {.sched_priority = 0};
  say("batch: %s", result(sched_setscheduler(id, SCHED_BATCH | SCHED_RESET_ON_FORK, &param)));
  say("policy seen: %#x", sched_getscheduler(id));
  say("param: %s", result(sched_setparam(id, &param)));
  param.sched_priority = 1;
  say("wrong priority: %s", result(sched_setparam(id, &param)));
  say("wrong policy: %s", result(sched_setscheduler(id, 77, &param)));
  struct attr attr = {.size = SIZE_1};
  say("getattr: %s", result(syscall(SYS_sched_getattr, id, &attr, SIZE_1, 0)));
  say("policy %u flags %#llx nice %d", attr.policy, (unsigned long long)attr.flags, attr.nice);
  attr.nice = 9;
  say("setattr: %s", result(syscall(SYS_sched_setattr, id, &attr, 0)));
  attr.size = 1 << 20;
  say("too big: %s", result(syscall(SYS_sched_setattr, id, &attr, 0)));
  struct timespec interval;
  say("interval: %s", result(sched_rr_get_interval(id, &interval)));
}
CASE(policy) { on_both(change, look_at_policy); }

/* A process that is gone, and one that does not run under Entresol. */
CASE(nobody) {
  struct sched_param param = {.sched_priority = 0};
  cpu_set_t set;
  pid_t child = fork();
  if (child == 0) _exit(0);
  need(waitpid(child, NULL, 0) == child);
  say("affinity: %s", result(sched_getaffinity(child, sizeof set, &set)));
  say("policy: %s", result(sched_setscheduler(child, SCHED_BATCH, &param)));
  say("init: %#x", sched_getscheduler(1));
}
