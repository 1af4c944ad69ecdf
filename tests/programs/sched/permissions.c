//@ root
//@ options: --rt=host
/* What the host's rules refuse who has no right to set priorities: policy by policy, with and without RLIMIT_RTPRIO and
 * RLIMIT_NICE (sched(7); user_check_sched_setscheduler). The limits are set as root; then the rights are given up. */
#include "../check.h"
#include "attr.h"
#include <grp.h>
#include <sys/resource.h>

static const char *const names[] = {"other", "fifo", "rr", "batch", NULL, "idle", "deadline"};

static long set(int policy, int priority) {
  struct sched_param param = {.sched_priority = priority};
  return syscall(SYS_sched_setscheduler, 0, policy, &param);
}

/* Says so where not even root may raise limits (a container without CAP_SYS_RESOURCE). */
static bool become_nobody(rlim_t rtprio, rlim_t nice) {
  struct rlimit limits[] = {{rtprio, rtprio}, {nice, nice}};
  if (setrlimit(RLIMIT_RTPRIO, &limits[0]) != 0 || setrlimit(RLIMIT_NICE, &limits[1]) != 0) {
    say("limits %s", errname(errno));
    return false;
  }
  need(setgroups(0, NULL) == 0 && setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
  return true;
}

/* In a child, so that the next case has its rights. */
static void as_nobody(rlim_t rtprio, rlim_t nice, void (*body)(void)) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    if (become_nobody(rtprio, nice)) body();
    _exit(0);
  }
  int status;
  must(waitpid(child, &status, 0) == child && status == 0);
}

static void all_policies(void) {
  static const int from[][2] = {{SCHED_OTHER, 0}, {SCHED_BATCH, 0}, {SCHED_IDLE, 0}, {SCHED_FIFO, 5}};
  for (int i = 0; i < COUNT(from); i++) {
    for (int policy = 0; policy <= 5; policy++) {
      if (!names[policy]) continue;
      static const int priorities[] = {0, 1, 5, 10, 11, 99};
      for (int j = 0; j < COUNT(priorities); j++) {
        set(from[i][0], from[i][1]);
        long before = syscall(SYS_sched_getscheduler, 0);
        long answer = set(policy, priorities[j]);
        say("%s to %s %d: %s", names[before], names[policy], priorities[j], result(answer));
      }
    }
  }
}

CASE(no_limits) { as_nobody(0, 0, all_policies); }
CASE(real_time_up_to_10) { as_nobody(10, 0, all_policies); }
CASE(nice_down_to_minus_5) { as_nobody(0, 25, all_policies); }

static void deadline(void) {
  struct attr attr = {.size = SIZE_0, .policy = 6, .runtime = 1000000, .deadline = 10000000, .period = 10000000};
  say("deadline %s", result(syscall(SYS_sched_setattr, 0, &attr, 0)));
}
CASE(deadline_needs_the_right) { as_nobody(99, 40, deadline); }

static void nices(void) {
  static const int values[] = {0, 10, 5, 19, 0, -5, -6, 3, -20};
  for (int i = 0; i < COUNT(values); i++) {
    say("nice %d: %s", values[i], result(setpriority(PRIO_PROCESS, 0, values[i])));
    errno = 0;
    say("now %d", getpriority(PRIO_PROCESS, 0));
    struct attr attr = {.size = SIZE_0, .nice = values[i]};
    say("by sched_setattr: %s", result(syscall(SYS_sched_setattr, 0, &attr, 0)));
  }
}
CASE(nices_without_a_limit) { as_nobody(0, 0, nices); }
CASE(nices_with_a_limit) { as_nobody(0, 25, nices); }

static void reset_flag(void) {
  say("set the flag %s", result(set(SCHED_OTHER | SCHED_RESET_ON_FORK, 0)));
  say("and again %s", result(set(SCHED_BATCH | SCHED_RESET_ON_FORK, 0)));
  say("clear it %s", result(set(SCHED_OTHER, 0)));
  say("policy %#lx", syscall(SYS_sched_getscheduler, 0));
}
CASE(the_reset_flag_stays) { as_nobody(0, 0, reset_flag); }

/* Who has a real-time policy may keep and lower its priority whatever the limit says now. */
static void lower(void) {
  say("lower %s", result(set(SCHED_FIFO, 5)));
  say("the same %s", result(set(SCHED_FIFO, 5)));
  say("higher %s", result(set(SCHED_FIFO, 6)));
  say("the other policy %s", result(set(SCHED_RR, 5)));
  say("ordinary %s", result(set(SCHED_OTHER, 0)));
  say("back %s", result(set(SCHED_FIFO, 1)));
}
CASE(who_has_a_priority_may_lower_it) {
  need(set(SCHED_FIFO, 20) == 0);
  as_nobody(0, 0, lower);
}
CASE(who_has_a_priority_and_a_limit) {
  need(set(SCHED_FIFO, 20) == 0);
  as_nobody(5, 0, lower);
}
