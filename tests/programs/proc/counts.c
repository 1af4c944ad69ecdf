/* What a thread has to itself in /proc: when it began, how often it left its CPU, how long it ran and waited. */
#include "../check.h"
#include <fcntl.h>

static char text[16384];

static const char *read_file(pid_t tid, const char *name) {
  char path[80];
  sprintf(path, "/proc/self/task/%d/%s", tid, name);
  int fd = open(path, O_RDONLY);
  need(fd >= 0);
  ssize_t n = read(fd, text, sizeof text - 1);
  need(n > 0);
  close(fd);
  text[n] = 0;
  return text;
}

static unsigned long long after(const char *key) {
  const char *at = strstr(text, key);
  need(at);
  return strtoull(at + strlen(key) + strspn(at + strlen(key), " :\t"), NULL, 10);
}

static long long start_of(pid_t tid) {
  char *at = strrchr(read_file(tid, "stat"), ')') + 1;
  for (int field = 3; field < 22; field++) at = strchr(at + 1, ' ');
  return atoll(at);
}

static pid_t tid_of_other;
static atomic_int ready, leave;

static void *sleeper(void *arg) {
  (void)arg;
  tid_of_other = gettid();
  for (int i = 0; i < 50; i++) sleep_ms(1);
  atomic_store(&ready, 1);
  while (!atomic_load(&leave)) sleep_ms(1);
  return NULL;
}

static void spin(int ms) {
  struct timespec now, end;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  end.tv_nsec += ms * 1000000l;
  do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  while ((now.tv_sec - end.tv_sec) * 1000000000l + now.tv_nsec - end.tv_nsec < 0);
}

CASE(when_it_began) {
  long long first = start_of(getpid());
  sleep_ms(60);
  atomic_store(&ready, 0), atomic_store(&leave, 0);
  pthread_t thread = start(sleeper, NULL);
  wait_until(atomic_load(&ready));
  long long own = start_of(getpid()), other = start_of(tid_of_other);
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  long long ticks = now.tv_sec * 100 + now.tv_nsec / 10000000;
  say("the process's stays %d", own == first);
  /* Two ticks of rounding. */
  must(other >= own + 4 && other <= ticks - 3);
  must(start_of(tid_of_other) >= other - 1 && start_of(tid_of_other) <= other + 1);
  atomic_store(&leave, 1);
  finish(thread);
}

CASE(switches) {
  atomic_store(&ready, 0), atomic_store(&leave, 0);
  pthread_t thread = start(sleeper, NULL);
  wait_until(atomic_load(&ready));
  read_file(tid_of_other, "status");
  unsigned long long waited = after("voluntary_ctxt_switches");
  say("at least 50 %d", waited >= 50);
  sleep_ms(20);
  read_file(tid_of_other, "status");
  say("more %d", after("voluntary_ctxt_switches") > waited);
  read_file(tid_of_other, "sched");
  must(after("nr_voluntary_switches") >= waited);
  must(after("nr_switches") >= after("nr_voluntary_switches"));
  atomic_store(&leave, 1);
  finish(thread);
}

static atomic_int turns;

static void *yields(void *arg) {
  (void)arg;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  need(sched_setaffinity(0, sizeof one, &one) == 0);
  atomic_fetch_add(&ready, 1);
  wait_until(atomic_load(&ready) == 2);
  // Not every yield gives way (EEVDF), but sooner or later so many have.
  do {
    for (int i = 0; i < 200; i++) sched_yield(), atomic_fetch_add(&turns, 1);
    read_file(gettid(), "status");
  } while (after("nonvoluntary_ctxt_switches") < 20);
  say("gave way");
  atomic_fetch_add(&leave, 1);
  wait_until(atomic_load(&leave) == 2);
  return NULL;
}

CASE(giving_way) {
  atomic_store(&ready, 0), atomic_store(&leave, 0);
  pthread_t a = start(yields, NULL), b = start(yields, NULL);
  finish(a), finish(b);
}

CASE(run_and_wait) {
  unsigned long long run, wait, slices, run_then, slices_then;
  need(sscanf(read_file(gettid(), "schedstat"), "%llu %llu %llu\n", &run_then, &wait, &slices_then) == 3);
  spin(30);
  sleep_ms(2);
  need(sscanf(read_file(gettid(), "schedstat"), "%llu %llu %llu\n", &run, &wait, &slices) == 3);
  say("ran %d, got a CPU again %d", run - run_then >= 29000000, slices > slices_then);
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  must(run <= now.tv_sec * 1000000000ull + now.tv_nsec);
}

CASE(sched_says_weight_and_slice) {
  read_file(gettid(), "sched");
  say("weight %llu, policy %llu, prio %llu", after("se.load.weight"), after("policy"), after("prio"));
  need(nice(5) == 5);
  read_file(gettid(), "sched");
  say("weight %llu, prio %llu", after("se.load.weight"), after("prio"));
  int fd = open("/proc/thread-self/sched", O_WRONLY);
  say("it may be reset %s", result(write(fd, "0", 1)));
  close(fd);
}
