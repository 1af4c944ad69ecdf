//@ seconds: 240
/* Clocks of CPU time fit together: what one shows is in the other, and none goes back. */
#include "../check.h"
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>

#define MS INT64_C(1000000)

static void use_cpu(int64_t ns) {
  int64_t end = now_ns(CLOCK_THREAD_CPUTIME_ID) + ns;
  while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end) {}
}

static void *work(void *ms) {
  use_cpu((intptr_t)ms * MS);
  return (void *)now_ns(CLOCK_THREAD_CPUTIME_ID);
}

static int64_t usage_ns(int who) {
  struct rusage usage;
  need(getrusage(who, &usage) == 0);
  return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 * MS +
         (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * INT64_C(1000);
}

/* Threads that are gone still count. */
CASE(sum_of_threads) {
  int64_t sum = 0;
  for (int round = 0; round < 3; round++) {
    pthread_t threads[8];
    for (int i = 0; i < COUNT(threads); i++) threads[i] = start(work, (void *)(intptr_t)(3 + i));
    for (int i = 0; i < COUNT(threads); i++) sum += (int64_t)finish(threads[i]);
  }
  must(sum >= 3 * 52 * MS);
  sum += now_ns(CLOCK_THREAD_CPUTIME_ID);
  must(now_ns(CLOCK_PROCESS_CPUTIME_ID) >= sum);
  say("done");
}

CASE(usage_is_the_clock) {
  use_cpu(50 * MS);
  int64_t used = now_ns(CLOCK_PROCESS_CPUTIME_ID), usage = usage_ns(RUSAGE_SELF);
  must(usage + 2000 >= used);
  used = now_ns(CLOCK_THREAD_CPUTIME_ID), usage = usage_ns(RUSAGE_THREAD);
  must(usage + 2000 >= used);
  struct tms tms;
  need(times(&tms) != -1);
  must((tms.tms_utime + tms.tms_stime + 2) * 10 * MS >= used);
  must(clock() * INT64_C(1000) >= 50 * MS);
  say("done");
}

/* Neither part of it ever shrinks, while ratio and total change. */
static void *in_the_kernel(void *stop) {
  while (!atomic_load((atomic_int *)stop)) {
    for (int i = 0; i < 100; i++) syscall(SYS_getppid);
    sched_yield();
  }
  return NULL;
}

CASE(usage_grows) {
  atomic_int stop = 0;
  pthread_t other = start(in_the_kernel, &stop);
  struct rusage last = {0}, now;
  for (int i = 0; i < 300; i++) {
    need(getrusage(RUSAGE_SELF, &now) == 0);
    must(!timercmp(&now.ru_utime, &last.ru_utime, <));
    must(!timercmp(&now.ru_stime, &last.ru_stime, <));
    last = now;
    use_cpu(200000);
  }
  atomic_store(&stop, 1);
  finish(other);
  say("done");
}

/* Each of two threads reads the other's clock and the process's. */
struct pair {
  pthread_t thread;
  clockid_t clock;
  atomic_int ready;
};

static struct pair pairs[2];

static void *watch_other(void *argument) {
  struct pair *me = argument, *other = &pairs[me == pairs];
  need(pthread_getcpuclockid(pthread_self(), &me->clock) == 0);
  atomic_fetch_add(&me->ready, 1);
  wait_until(atomic_load(&other->ready));
  int64_t last = 0, last_process = 0;
  for (int i = 0; i < 20000; i++) {
    int64_t now = now_ns(other->clock), process = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    must(now >= last && process >= last_process && process >= now);
    last = now, last_process = process;
  }
  atomic_fetch_add(&me->ready, 1);
  wait_until(atomic_load(&other->ready) == 2);
  return NULL;
}

CASE(clocks_of_others) {
  for (int i = 0; i < 2; i++) pairs[i] = (struct pair){0};
  for (int i = 0; i < 2; i++) pairs[i].thread = start(watch_other, &pairs[i]);
  for (int i = 0; i < 2; i++) finish(pairs[i].thread);
  say("done");
}

/* A child starts at nothing; the time goes on over exec. */
static void young(void) {
  must(now_ns(CLOCK_PROCESS_CPUTIME_ID) < 150 * MS);
  must(now_ns(CLOCK_THREAD_CPUTIME_ID) < 150 * MS);
}

CASE(fork_starts_anew) {
  use_cpu(200 * MS);
  in_child("child", young);
}

static void older(void) {
  use_cpu(300 * MS);
  setenv("EXECUTED", "1", 1);
  execl("/proc/self/exe", "again", "over_exec", NULL);
}

CASE(over_exec) {
  if (getenv("EXECUTED")) {
    /* Well above what a start takes; all of it only if nobody took the processor meanwhile. */
    must(now_ns(CLOCK_PROCESS_CPUTIME_ID) >= 30 * MS);
    must(usage_ns(RUSAGE_SELF) >= 30 * MS);
    _exit(0);
  }
  in_child("after exec", older);
}

/* What a host call consumes is the caller's, as system time. */
CASE(host_calls_count) {
  enum { SIZE = 64 << 20 };
  int64_t before = now_ns(CLOCK_THREAD_CPUTIME_ID);
  /* Four are plenty; more only if the clock has to be caught up with first, as the host took the processor before. */
  for (int i = 0; i < 4 || (i < 1000 && now_ns(CLOCK_THREAD_CPUTIME_ID) - before <= MS); i++) {
    char *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    need(memory != MAP_FAILED);
    munmap(memory, SIZE);
  }
  must(now_ns(CLOCK_THREAD_CPUTIME_ID) - before > MS);
  say("done");
}

/* Waiting does not. */
CASE(waiting_is_free) {
  int pipes[2];
  need(pipe(pipes) == 0);
  int64_t before = now_ns(CLOCK_PROCESS_CPUTIME_ID);
  pid_t child = fork();
  need(child != -1);
  if (child == 0) {
    sleep_ms(300);
    _exit(write(pipes[1], "x", 1) != 1);
  }
  char byte;
  must(read(pipes[0], &byte, 1) == 1);
  must(waitpid(child, NULL, 0) == child);
  must(now_ns(CLOCK_PROCESS_CPUTIME_ID) - before < 150 * MS);
  say("done");
}

static void *burn(void *stop) {
  while (!atomic_load((atomic_int *)stop)) {}
  return NULL;
}

/* A sleep on CPU time ends by the consumption of others, and is not early. */
CASE(sleep_on_cpu_time) {
  atomic_int stop = 0;
  pthread_t other = start(burn, &stop);
  clockid_t clocks[2] = {CLOCK_PROCESS_CPUTIME_ID};
  need(pthread_getcpuclockid(other, &clocks[1]) == 0);
  for (int i = 0; i < 2; i++) {
    struct timespec span = timespec_of(20 * MS);
    int64_t before = now_ns(clocks[i]);
    say("relative %s", result(syscall(SYS_clock_nanosleep, clocks[i], 0, &span, NULL)));
    must(now_ns(clocks[i]) - before >= 20 * MS);
    span = timespec_of(now_ns(clocks[i]) + 20 * MS);
    say("absolute %s", result(syscall(SYS_clock_nanosleep, clocks[i], TIMER_ABSTIME, &span, NULL)));
    must(now_ns(clocks[i]) >= span.tv_sec * 1000 * MS + span.tv_nsec);
  }
  atomic_store(&stop, 1);
  finish(other);
}

static void nothing(int signal) { (void)signal; }

/* A handler ends it, with the rest for a relative one. */
CASE(sleep_interrupted) {
  struct sigaction action = {.sa_handler = nothing};
  need(sigaction(SIGALRM, &action, NULL) == 0);
  struct itimerval soon = {.it_value = {0, 50000}};
  for (int absolute = 0; absolute < 2; absolute++) {
    struct timespec span = {absolute ? 1000 : 5, 0}, left = {-7, -7};
    need(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    say("%s %s", absolute ? "absolute" : "relative",
        result(syscall(SYS_clock_nanosleep, CLOCK_PROCESS_CPUTIME_ID, absolute, &span, &left)));
    if (absolute) must(left.tv_sec == -7);
    else must(left.tv_sec >= 3 && left.tv_sec <= 5);
  }
}
