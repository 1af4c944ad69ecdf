/* Which clock of CPU time can do what, and how the others say no. */
#include "../check.h"
#include <sys/resource.h>
#include <sys/times.h>

enum { PROF, VIRT, SCHED, NONE };
#define PROCESS(pid, which) ((int)(~(unsigned)(pid) << 3 | (which)))
#define THREAD(tid, which) ((int)(~(unsigned)(tid) << 3 | 4 | (which)))

static pid_t other_tid;
static atomic_int leave;

static void *stay(void *unused) {
  (void)unused;
  other_tid = gettid();
  while (!atomic_load(&leave)) sleep_ms(5);
  return NULL;
}

/* Reads, sets and asks the resolution of the clocks that a raw id can name. */
static void ask(const char *name, int clock) {
  struct timespec time;
  say("%s: get %s", name, result(syscall(SYS_clock_gettime, clock, &time)));
  say("%s: get, bad place %s", name, result(syscall(SYS_clock_gettime, clock, (void *)8)));
  say("%s: resolution %s", name, result(syscall(SYS_clock_getres, clock, &time)));
  say("%s: resolution, no place %s", name, result(syscall(SYS_clock_getres, clock, NULL)));
  say("%s: resolution, bad place %s", name, result(syscall(SYS_clock_getres, clock, (void *)8)));
  say("%s: set %s", name, result(syscall(SYS_clock_settime, clock, &(struct timespec){1, 0})));
  say("%s: set, bad place %s", name, result(syscall(SYS_clock_settime, clock, (void *)8)));
}

CASE(encoded_ids) {
  static const char *names[] = {"prof", "virt", "sched", "none"};
  char name[64];
  atomic_store(&leave, 0);
  other_tid = 0;
  pthread_t other = start(stay, NULL);
  wait_until(*(volatile pid_t *)&other_tid != 0);
  for (int which = PROF; which <= NONE; which++) {
    const struct {
      const char *name;
      int clock;
    } all[] = {{"own process", PROCESS(0, which)},
               {"own process by id", PROCESS(getpid(), which)},
               {"own thread", THREAD(0, which)},
               {"own thread by id", THREAD(gettid(), which)},
               {"another thread", THREAD(other_tid, which)},
               {"a thread as a process", PROCESS(other_tid, which)},
               {"nobody's thread", THREAD(0x3fffffe, which)},
               {"nobody's process", PROCESS(0x3fffffe, which)},
               {"another process's thread", THREAD(getppid(), which)},
               {"another process", PROCESS(getppid(), which)}};
    for (int i = 0; i < COUNT(all); i++) {
      snprintf(name, sizeof name, "%s, %s", all[i].name, names[which]);
      ask(name, all[i].clock);
    }
  }
  atomic_store(&leave, 1);
  finish(other);
}

static void *own_id_as_process(void *unused) {
  (void)unused;
  struct timespec time;
  say("own id as a process: get %s", result(syscall(SYS_clock_gettime, PROCESS(gettid(), SCHED), &time)));
  say("own id as a process: resolution %s", result(syscall(SYS_clock_getres, PROCESS(gettid(), SCHED), &time)));
  return NULL;
}

CASE(of_a_thread) { finish(start(own_id_as_process, NULL)); }

CASE(static_ids) {
  ask("process", CLOCK_PROCESS_CPUTIME_ID);
  ask("thread", CLOCK_THREAD_CPUTIME_ID);
}

CASE(sleep_refused) {
  struct timespec soon = {0, 1000}, bad = {0, -1};
  const struct {
    const char *name;
    int clock;
  } all[] = {{"process", CLOCK_PROCESS_CPUTIME_ID},
             {"thread", CLOCK_THREAD_CPUTIME_ID},
             {"own thread", THREAD(0, SCHED)},
             {"own thread by id", THREAD(gettid(), SCHED)},
             {"nobody's thread", THREAD(0x3fffffe, SCHED)},
             {"nobody's process", PROCESS(0x3fffffe, SCHED)},
             {"no such kind", PROCESS(0, NONE) | 4},
             {"raw", CLOCK_MONOTONIC_RAW},
             {"coarse", CLOCK_MONOTONIC_COARSE},
             {"number 12", 12}};
  for (int i = 0; i < COUNT(all); i++) {
    int clock = all[i].clock;
    say("%s: bad time %s", all[i].name, result(syscall(SYS_clock_nanosleep, clock, 0, &bad, NULL)));
    say("%s: bad place %s", all[i].name, result(syscall(SYS_clock_nanosleep, clock, 0, (void *)8, NULL)));
    /* The process's clock stands still while its only thread sleeps. */
    if (clock != CLOCK_PROCESS_CPUTIME_ID)
      say("%s: %s", all[i].name, result(syscall(SYS_clock_nanosleep, clock, 0, &soon, NULL)));
  }
  say("process, past %s",
      result(syscall(SYS_clock_nanosleep, CLOCK_PROCESS_CPUTIME_ID, TIMER_ABSTIME, &(struct timespec){0, 1}, NULL)));
}

CASE(usage_refused) {
  struct rusage usage;
  say("self %s", result(syscall(SYS_getrusage, RUSAGE_SELF, &usage)));
  say("thread %s", result(syscall(SYS_getrusage, RUSAGE_THREAD, &usage)));
  say("children %s", result(syscall(SYS_getrusage, RUSAGE_CHILDREN, &usage)));
  say("number 7 %s", result(syscall(SYS_getrusage, 7, &usage)));
  say("bad place %s", result(syscall(SYS_getrusage, RUSAGE_SELF, (void *)8)));
  say("thread, bad place %s", result(syscall(SYS_getrusage, RUSAGE_THREAD, (void *)8)));
  must(syscall(SYS_times, NULL) > 0);
  say("times, bad place %s", result(syscall(SYS_times, (void *)8)));
}
