//@ root
/* sched_setattr and sched_getattr. */
#include "../check.h"
#include "attr.h"
#include <sys/resource.h>

static long set(pid_t pid, void *attr, unsigned flags) { return syscall(SYS_sched_setattr, pid, attr, flags); }
static long get(pid_t pid, void *attr, unsigned size, unsigned flags) {
  return syscall(SYS_sched_getattr, pid, attr, size, flags);
}

static void show(const char *what) {
  struct attr attr = {0};
  must(get(0, &attr, SIZE_1, 0) == 0);
  say("%s: size %u, policy %u, flags %#lx, nice %d, priority %u", what, attr.size, attr.policy, (long)attr.flags,
      attr.nice, attr.priority);
}

CASE(sizes) {
  static const uint32_t sizes[] = {0, 1, 47, 48, 49, 55, 56, 57, 64, 100, 4096, 4097, UINT32_MAX};
  for (int i = 0; i < COUNT(sizes); i++) {
    static char place[8192];
    memset(place, 0, sizeof place);
    struct attr *attr = (struct attr *)place;
    attr->size = sizes[i];
    long answer = set(0, attr, 0);
    say("set with size %u: %s, size %u", sizes[i], result(answer), attr->size);
    memset(place, 0x55, sizeof place);
    answer = get(0, place, sizes[i], 0);
    say("get with size %u: %s, size %u", sizes[i], result(answer), attr->size);
  }
}

CASE(tail) {
  struct attr attr = {.size = sizeof attr};
  say("zeros %s", result(set(0, &attr, 0)));
  attr = (struct attr){.size = sizeof attr, .beyond = {[20] = 1}};
  say("not zeros %s", result(set(0, &attr, 0)));
  say("size written %u", attr.size);
  struct attr got;
  memset(&got, 0x77, sizeof got);
  must(get(0, &got, sizeof got, 0) == 0);
  say("got size %u, tail %#x", got.size, got.beyond[3]);
}

CASE(refused) {
  struct attr attr = {.size = SIZE_0};
  say("no attr %s", result(set(0, NULL, 0)));
  say("flags %s", result(set(0, &attr, 1)));
  say("negative pid %s", result(set(-1, &attr, 0)));
  say("no such pid %s", result(set(0x3ffffff0, &attr, 0)));
  say("bad place %s", result(set(0, (void *)8, 0)));
  attr.policy = 99;
  say("policy 99 %s", result(set(0, &attr, 0)));
  attr.policy = (uint32_t)-1;
  say("policy -1 %s", result(set(0, &attr, 0)));
  attr.policy = SCHED_FIFO | SCHED_RESET_ON_FORK;
  attr.priority = 5;
  say("flag in the policy %s", result(set(0, &attr, 0)));
  say("get, no attr %s", result(get(0, NULL, SIZE_0, 0)));
  say("get, bad place %s", result(get(0, (void *)8, SIZE_0, 0)));
  say("get, flags %s", result(get(0, &attr, SIZE_0, 8)));
  say("get, negative pid %s", result(get(-1, &attr, SIZE_0, 0)));
  say("get, no such pid %s", result(get(0x3ffffff0, &attr, SIZE_0, 0)));
}

/* Each flag alone. Bits 5 and 6 need utilization clamping, which a host may lack. */
CASE(flags) {
  for (int bit = 0; bit < 64; bit++) {
    if (bit == 5 || bit == 6) continue;
    struct attr attr = {.size = SIZE_1, .policy = SCHED_FIFO, .priority = 5, .flags = UINT64_C(1) << bit};
    long answer = set(0, &attr, 0);
    if (answer != -1 || errno != EINVAL) say("bit %d: %s", bit, result(answer));
  }
  struct attr attr = {.size = SIZE_0, .policy = SCHED_RR, .priority = 9, .flags = 1};
  say("set %s", result(set(0, &attr, 0)));
  show("with reset on fork");
  attr = (struct attr){.size = SIZE_0, .policy = SCHED_FIFO, .priority = 20, .flags = 8};
  say("keep policy %s", result(set(0, &attr, 0)));
  show("kept policy");
  attr = (struct attr){.size = SIZE_0, .policy = SCHED_FIFO, .priority = 30, .flags = 16};
  say("keep params %s", result(set(0, &attr, 0)));
  show("kept params");
  attr = (struct attr){.size = SIZE_0, .policy = SCHED_OTHER, .priority = 30, .flags = 24};
  say("keep both %s", result(set(0, &attr, 0)));
  show("kept both");
}

CASE(priorities_and_nices) {
  static const uint32_t policies[] = {SCHED_OTHER, SCHED_FIFO, SCHED_RR, SCHED_BATCH, SCHED_IDLE};
  static const int32_t nices[] = {-100, -21, -20, 0, 19, 20, 100, INT32_MIN, INT32_MAX};
  for (int i = 0; i < COUNT(policies); i++) {
    static const uint32_t priorities[] = {0, 1, 99, 100, UINT32_MAX};
    for (int j = 0; j < COUNT(priorities); j++) {
      struct attr attr = {.size = SIZE_0, .policy = policies[i], .priority = priorities[j]};
      say("policy %u, priority %u: %s", policies[i], priorities[j], result(set(0, &attr, 0)));
    }
  }
  for (int i = 0; i < COUNT(nices); i++) {
    struct attr attr = {.size = SIZE_0, .policy = SCHED_OTHER, .nice = nices[i]};
    long answer = set(0, &attr, 0);
    say("nice %d: %s, got %d", nices[i], result(answer), getpriority(PRIO_PROCESS, 0));
  }
  struct attr attr = {.size = SIZE_0, .policy = SCHED_FIFO, .priority = 5, .nice = 7};
  must(set(0, &attr, 0) == 0);
  show("nice with fifo");
  attr = (struct attr){.size = SIZE_0, .policy = SCHED_BATCH, .nice = 7};
  must(set(0, &attr, 0) == 0);
  show("nice with batch");
}

/* Bad reservations; what a good one does belongs to the deadline class. */
CASE(reservations_refused) {
  static const struct {
    uint64_t runtime, deadline, period;
  } bad[] = {{0, 0, 0}, {1023, 1000000, 1000000}, {2000000, 1000000, 1000000}, {500000, 2000000, 1000000},
             {UINT64_C(1) << 63, UINT64_C(1) << 63, UINT64_C(1) << 63}, {2000, 50000, 50000},
             {1000000, 5000000000, 5000000000}};
  for (int i = 0; i < COUNT(bad); i++) {
    struct attr attr = {.size = SIZE_0, .policy = 6, .runtime = bad[i].runtime, .deadline = bad[i].deadline,
                        .period = bad[i].period};
    say("reservation %d: %s", i, result(set(0, &attr, 0)));
  }
  struct attr attr = {.size = SIZE_0, .policy = 6, .priority = 1, .runtime = 1000000, .deadline = 10000000};
  say("with a priority %s", result(set(0, &attr, 0)));
}
