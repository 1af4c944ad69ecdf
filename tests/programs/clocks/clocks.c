/* Clocks: what exists, that none goes back, and that those of threads and processes fit together. */
#include "../check.h"
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>

CASE(which_exist) {
  struct timespec time;
  for (clockid_t clock = -3; clock <= 14; clock++) {
    say("clock %d: get %s", clock, result(syscall(SYS_clock_gettime, clock, &time)));
    say("clock %d: resolution %s", clock, result(syscall(SYS_clock_getres, clock, &time)));
    say("clock %d: resolution, no place %s", clock, result(syscall(SYS_clock_getres, clock, NULL)));
  }
  say("bad place %s", result(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, (void *)8)));
}

CASE(bad_cpu_clocks) {
  struct timespec time;
  /* ~pid << 3 | kind: nobody's process, nobody's thread, no kind. */
  static const int clocks[] = {(int)(~0x3ffffffu << 3 | 2), (int)(~0x3ffffffu << 3 | 6), (int)(~0u << 3 | 3)};
  for (int i = 0; i < COUNT(clocks); i++) say("clock %d: %s", i, result(syscall(SYS_clock_gettime, clocks[i], &time)));
}

static void *watch(void *argument) {
  clockid_t clock = (clockid_t)(intptr_t)argument;
  int64_t last = 0;
  for (int i = 0; i < 20000; i++) {
    int64_t now = now_ns(clock);
    must(now >= last);
    last = now;
    if (i % 100 == 0) sched_yield();
  }
  return NULL;
}

CASE(never_back) {
  static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME,
                                     CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID};
  pthread_t threads[COUNT(clocks) * 2];
  for (int i = 0; i < COUNT(threads); i++) threads[i] = start(watch, (void *)(intptr_t)clocks[i / 2]);
  for (int i = 0; i < COUNT(threads); i++) finish(threads[i]);
  say("done");
}

static void use_cpu(int64_t ns) {
  int64_t end = now_ns(CLOCK_THREAD_CPUTIME_ID) + ns;
  while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end) {}
}

static void *work(void *ms) {
  use_cpu((intptr_t)ms * 1000000);
  return (void *)now_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* A sleeper uses nothing; a thread's time starts at 0; the process's is at least the sum of all. */
CASE(cpu_time_of_threads) {
  pthread_t threads[4];
  int64_t sum = now_ns(CLOCK_THREAD_CPUTIME_ID);
  for (int i = 0; i < 4; i++) threads[i] = start(work, (void *)50);
  for (int i = 0; i < 4; i++) {
    int64_t used = (int64_t)finish(threads[i]);
    must(used >= 50000000 && used < 1000000000);
    sum += used;
  }
  must(now_ns(CLOCK_PROCESS_CPUTIME_ID) >= sum);
  int64_t before = now_ns(CLOCK_THREAD_CPUTIME_ID);
  sleep_ms(200);
  must(now_ns(CLOCK_THREAD_CPUTIME_ID) - before < 100000000);
  say("done");
}

CASE(usage) {
  struct rusage thread, process;
  struct tms tms;
  use_cpu(100000000);
  say("thread %s", result(getrusage(RUSAGE_THREAD, &thread)));
  say("process %s", result(getrusage(RUSAGE_SELF, &process)));
  must(thread.ru_utime.tv_sec * 1000000 + thread.ru_utime.tv_usec + thread.ru_stime.tv_sec * 1000000 +
           thread.ru_stime.tv_usec >= 90000);
  must(times(&tms) != -1 && tms.tms_utime + tms.tms_stime >= 8);
  must(clock() >= 90000);
  say("bad %s", result(getrusage(7, &process)));
}

CASE(set_refused) {
  struct timespec bad = {0, -1};
  say("monotonic %s", result(clock_settime(CLOCK_MONOTONIC, &(struct timespec){1, 0})));
  say("bad time %s", result(clock_settime(CLOCK_REALTIME, &bad)));
  say("process clock %s", result(clock_settime(CLOCK_PROCESS_CPUTIME_ID, &(struct timespec){1, 0})));
}

CASE(forms_agree) {
  struct timeval before, after;
  gettimeofday(&before, NULL);
  int64_t now = now_ns(CLOCK_REALTIME);
  gettimeofday(&after, NULL);
  must(now / 1000 >= before.tv_sec * INT64_C(1000000) + before.tv_usec);
  must(now / 1000 <= after.tv_sec * INT64_C(1000000) + after.tv_usec);
  /* It is read from the tick's clock, which may be behind by a tick. */
  struct timespec coarse;
  need(clock_gettime(CLOCK_REALTIME_COARSE, &coarse) == 0);
  must(time(NULL) >= coarse.tv_sec);
  say("done");
}
