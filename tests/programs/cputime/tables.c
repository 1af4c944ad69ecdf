//@ cpus: default
//@ seconds: 240
/* One case for each rule of CPU clocks, interval timers and limits that can be told in a line. */
#include "../check.h"
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>

#define MS INT64_C(1000000)
enum { PROF, VIRT, SCHED };
#define PROCESS(pid, which) ((int)(~(unsigned)(pid) << 3 | (which)))
#define THREAD(tid, which) ((int)(~(unsigned)(tid) << 3 | 4 | (which)))

static void use_cpu(int64_t ns) {
  int64_t end = now_ns(CLOCK_THREAD_CPUTIME_ID) + ns;
  while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end) {}
}

static atomic_int came;
static atomic_int code, who;

static void count(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  atomic_store(&code, info->si_code);
  atomic_store(&who, gettid());
  atomic_fetch_add(&came, 1);
}

static void handle(int signal) {
  struct sigaction action = {.sa_sigaction = count, .sa_flags = SA_SIGINFO | SA_RESTART};
  need(sigaction(signal, &action, NULL) == 0);
  atomic_store(&came, 0);
}

static void set(int kind, long value_us, long interval_us) {
  struct itimerval timer = {.it_value = {value_us / 1000000, value_us % 1000000},
                            .it_interval = {interval_us / 1000000, interval_us % 1000000}};
  need(setitimer(kind, &timer, NULL) == 0);
}

static void wait_for(int many) {
  int64_t limit = now_ns(CLOCK_MONOTONIC) + 60000 * MS;
  while (atomic_load(&came) < many) {
    for (volatile int i = 0; i < 100000; i++) {}
    need(now_ns(CLOCK_MONOTONIC) < limit);
  }
}

CASE(id_of_the_own_process) {
  clockid_t clock;
  say("%s", result(clock_getcpuclockid(0, &clock)));
  must(clock == PROCESS(0, SCHED));
}

CASE(id_of_a_process_by_its_id) {
  clockid_t clock;
  say("%s", result(clock_getcpuclockid(getpid(), &clock)));
  must(clock == PROCESS(getpid(), SCHED));
  must(now_ns(clock) > 0);
}

CASE(id_of_nobody) {
  clockid_t clock;
  say("%s", errname(clock_getcpuclockid(0x3fffffe, &clock)));
}

CASE(id_of_the_own_thread) {
  clockid_t clock;
  say("%s", result(pthread_getcpuclockid(pthread_self(), &clock)));
  must(clock == THREAD(gettid(), SCHED));
}

CASE(resolution_of_a_precise_clock) {
  struct timespec time;
  say("%s", result(clock_getres(PROCESS(0, SCHED), &time)));
  say("%ld.%09ld", (long)time.tv_sec, time.tv_nsec);
}

CASE(sampled_clocks_follow_the_precise_one) {
  // A kernel that samples sees nothing where the host above it takes each tick.
  do use_cpu(20 * MS);
  while (now_ns(PROCESS(0, PROF)) == 0);
  // In this order, because a tick may come between them.
  int64_t virtual = now_ns(PROCESS(0, VIRT)), prof = now_ns(PROCESS(0, PROF));
  must(prof > 0 && virtual <= prof);
  say("done");
}

CASE(static_and_encoded_are_one_clock) {
  int64_t before = now_ns(CLOCK_PROCESS_CPUTIME_ID), between = now_ns(PROCESS(0, SCHED));
  must(between >= before && now_ns(CLOCK_PROCESS_CPUTIME_ID) >= between);
  before = now_ns(CLOCK_THREAD_CPUTIME_ID), between = now_ns(THREAD(0, SCHED));
  must(between >= before && now_ns(CLOCK_THREAD_CPUTIME_ID) >= between);
  say("done");
}

CASE(a_clock_of_a_dead_child) {
  pid_t child = fork();
  need(child != -1);
  if (child == 0) _exit(0);
  need(waitpid(child, NULL, 0) == child);
  struct timespec time;
  say("%s", result(clock_gettime(PROCESS(child, SCHED), &time)));
}

CASE(the_clock_of_a_child_that_sleeps) {
  pid_t child = fork();
  need(child != -1);
  if (child == 0) {
    pause();
    _exit(0);
  }
  clockid_t clock;
  say("%s", result(clock_getcpuclockid(child, &clock)));
  settle();
  int64_t before = now_ns(clock);
  settle();
  must(now_ns(clock) - before < 50 * MS);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
}

static long used_ms(const struct rusage *usage) {
  return (usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000 +
         (usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) / 1000;
}

CASE(children_count_when_they_are_waited_for) {
  struct rusage before, between, after;
  need(getrusage(RUSAGE_CHILDREN, &before) == 0);
  pid_t child = fork();
  need(child != -1);
  if (child == 0) {
    use_cpu(120 * MS);
    _exit(0);
  }
  siginfo_t info;
  need(waitid(P_PID, child, &info, WEXITED | WNOWAIT) == 0);
  need(getrusage(RUSAGE_CHILDREN, &between) == 0);
  must(used_ms(&between) == used_ms(&before));
  need(waitpid(child, NULL, 0) == child);
  need(getrusage(RUSAGE_CHILDREN, &after) == 0);
  must(used_ms(&after) - used_ms(&before) >= 60);
  say("done");
}

CASE(times_of_children) {
  struct tms before, after;
  times(&before);
  pid_t child = fork();
  need(child != -1);
  if (child == 0) {
    use_cpu(150 * MS);
    _exit(0);
  }
  need(waitpid(child, NULL, 0) == child);
  times(&after);
  must(after.tms_cutime + after.tms_cstime - before.tms_cutime - before.tms_cstime >= 8);
  say("done");
}

CASE(prof_comes_from_the_kernel) {
  handle(SIGPROF);
  set(ITIMER_PROF, 20000, 0);
  wait_for(1);
  say("code %d", atomic_load(&code));
}

CASE(virtual_comes_from_the_kernel) {
  handle(SIGVTALRM);
  set(ITIMER_VIRTUAL, 20000, 0);
  wait_for(1);
  say("code %d", atomic_load(&code));
}

CASE(once_reads_zero_afterwards) {
  handle(SIGPROF);
  set(ITIMER_PROF, 20000, 0);
  wait_for(1);
  struct itimerval now;
  need(getitimer(ITIMER_PROF, &now) == 0);
  say("%ld %ld, interval %ld", (long)now.it_value.tv_sec, (long)now.it_value.tv_usec, (long)now.it_interval.tv_usec);
}

CASE(disarming_keeps_the_interval_of_prof) {
  set(ITIMER_PROF, 0, 3000000);
  struct itimerval now;
  need(getitimer(ITIMER_PROF, &now) == 0);
  say("%ld, interval %ld", (long)now.it_value.tv_sec, (long)now.it_interval.tv_sec);
  set(ITIMER_PROF, 0, 0);
}

CASE(disarming_drops_the_interval_of_real) {
  set(ITIMER_REAL, 0, 3000000);
  struct itimerval now;
  need(getitimer(ITIMER_REAL, &now) == 0);
  say("%ld, interval %ld", (long)now.it_value.tv_sec, (long)now.it_interval.tv_sec);
}

CASE(blocked_ticks_coalesce) {
  handle(SIGPROF);
  sigset_t set_of;
  sigemptyset(&set_of);
  sigaddset(&set_of, SIGPROF);
  sigprocmask(SIG_BLOCK, &set_of, NULL);
  set(ITIMER_PROF, 10000, 10000);
  sigset_t pending;
  int64_t limit = now_ns(CLOCK_MONOTONIC) + 60000 * MS;
  do {
    use_cpu(50 * MS);
    need(sigpending(&pending) == 0 && now_ns(CLOCK_MONOTONIC) < limit);
  } while (!sigismember(&pending, SIGPROF));
  use_cpu(50 * MS);
  set(ITIMER_PROF, 0, 0);
  must(atomic_load(&came) == 0);
  sigprocmask(SIG_UNBLOCK, &set_of, NULL);
  say("came %d", atomic_load(&came));
}

CASE(an_ignored_prof_goes_on) {
  signal(SIGPROF, SIG_IGN);
  set(ITIMER_PROF, 10000, 10000);
  use_cpu(100 * MS);
  handle(SIGPROF);
  wait_for(2);
  set(ITIMER_PROF, 0, 0);
  say("done");
}

CASE(alarm_rounds_up) {
  say("none %u", alarm(10));
  set(ITIMER_REAL, 400000, 0);
  say("0.4 s: %u", alarm(0));
  set(ITIMER_REAL, 1900000, 0);
  say("1.9 s: %u", alarm(0));
  say("none again %u", alarm(0));
}

CASE(alarm_and_real_are_one) {
  alarm(1000);
  struct itimerval now;
  need(getitimer(ITIMER_REAL, &now) == 0);
  must(now.it_value.tv_sec >= 990);
  set(ITIMER_REAL, 0, 0);
  say("left %u", alarm(0));
}

CASE(real_is_armed_again_when_it_is_taken) {
  sigset_t set_of;
  sigemptyset(&set_of);
  sigaddset(&set_of, SIGALRM);
  sigprocmask(SIG_BLOCK, &set_of, NULL);
  set(ITIMER_REAL, 10000, 10000);
  for (int i = 0; i < 5; i++) {
    int signal;
    need(sigwait(&set_of, &signal) == 0);
  }
  set(ITIMER_REAL, 0, 0);
  struct timespec none = {0};
  while (sigtimedwait(&set_of, NULL, &none) > 0) {}
  say("five");
}

static atomic_int leave;

static void *sleep_only(void *unused) {
  while (!atomic_load(&leave)) sleep_ms(5);
  return unused;
}

CASE(prof_counts_threads_that_compute) {
  atomic_store(&leave, 0);
  pthread_t other = start(sleep_only, NULL);
  handle(SIGPROF);
  int64_t before = now_ns(CLOCK_MONOTONIC);
  set(ITIMER_PROF, 100000, 0);
  wait_for(1);
  /* Linux counts whole ticks for whoever runs when one comes, so on a busy machine this may be far from what was consumed;
   * but one thread has no more than the time that passes. */
  must(now_ns(CLOCK_MONOTONIC) - before > 40 * MS);
  atomic_store(&leave, 1);
  finish(other);
  say("done");
}

static void hard_below_soft(void) {
  struct rlimit good = {100, 200}, worse = {150, 120}, now;
  need(setrlimit(RLIMIT_CPU, &good) == 0);
  say("%s", result(setrlimit(RLIMIT_CPU, &worse)));
  need(getrlimit(RLIMIT_CPU, &now) == 0);
  say("still %ld %ld", (long)now.rlim_cur, (long)now.rlim_max);
}

CASE(a_soft_limit_above_the_hard_one) { in_child("child", hard_below_soft); }

static void lower_hard(void) {
  struct rlimit now = {100, 200};
  need(setrlimit(RLIMIT_CPU, &now) == 0);
  now.rlim_max = 150;
  say("lower %s", result(setrlimit(RLIMIT_CPU, &now)));
  need(getrlimit(RLIMIT_CPU, &now) == 0);
  say("%ld %ld", (long)now.rlim_cur, (long)now.rlim_max);
}

CASE(a_hard_limit_can_be_lowered) { in_child("child", lower_hard); }

static void block_and_exceed(void) {
  sigset_t set_of;
  sigemptyset(&set_of);
  sigaddset(&set_of, SIGXCPU);
  sigprocmask(SIG_BLOCK, &set_of, NULL);
  struct rlimit limit = {0, 1};
  need(setrlimit(RLIMIT_CPU, &limit) == 0);
  for (;;) {}
}

CASE(the_hard_limit_cannot_be_blocked) { in_child("child", block_and_exceed); }

static void ignore_and_exceed(void) {
  signal(SIGXCPU, SIG_IGN);
  struct rlimit limit = {0, 1};
  need(setrlimit(RLIMIT_CPU, &limit) == 0);
  for (;;) {}
}

CASE(nor_ignored) { in_child("child", ignore_and_exceed); }

static void raised_after_the_signal(void) {
  handle(SIGXCPU);
  struct rlimit limit = {0, RLIM_INFINITY};
  need(setrlimit(RLIMIT_CPU, &limit) == 0);
  wait_for(1);
  need(getrlimit(RLIMIT_CPU, &limit) == 0);
  say("came, soft is %ld", (long)limit.rlim_cur);
}

CASE(each_signal_raises_the_soft_limit) { in_child("child", raised_after_the_signal); }

static void spent_already(void) {
  handle(SIGXCPU);
  use_cpu(1100 * MS);
  struct rlimit limit = {1, RLIM_INFINITY};
  need(setrlimit(RLIMIT_CPU, &limit) == 0);
  wait_for(1);
  say("code %d", atomic_load(&code));
}

CASE(a_limit_that_is_spent_already) { in_child("child", spent_already); }

static void real_in_child(void) {
  struct itimerval now;
  need(getitimer(ITIMER_REAL, &now) == 0);
  say("real %ld", (long)now.it_value.tv_sec);
  say("alarm %u", alarm(0));
}

CASE(alarm_is_not_inherited) {
  alarm(1000);
  in_child("child", real_in_child);
  must(alarm(0) >= 990);
}

CASE(sleep_on_another_threads_clock_of_the_past) {
  atomic_store(&leave, 0);
  pthread_t other = start(sleep_only, NULL);
  clockid_t clock;
  need(pthread_getcpuclockid(other, &clock) == 0);
  wait_until(now_ns(clock) > 1);
  say("%s", errname(clock_nanosleep(clock, TIMER_ABSTIME, &(struct timespec){0, 1}, NULL)));
  atomic_store(&leave, 1);
  finish(other);
}

CASE(clock_counts_microseconds) {
  clock_t before = clock();
  use_cpu(30 * MS);
  must(clock() >= before);
  say("%ld a second", (long)CLOCKS_PER_SEC);
}
