//@ forms: musl
/* Which CPUs a thread may use. Masks are shown relative to the one at the start, so that any number of CPUs
 * gives the same lines. */
#include "../check.h"
#include <ctype.h>

static unsigned long start_mask[128];
static long mask_bytes;

static long get(pid_t pid, size_t size, void *mask) { return syscall(SYS_sched_getaffinity, pid, size, mask); }
static long set(pid_t pid, size_t size, const void *mask) { return syscall(SYS_sched_setaffinity, pid, size, mask); }

static int count(const unsigned long *mask) {
  int bits = 0;
  for (int i = 0; i < mask_bytes / 8; i++) bits += __builtin_popcountl(mask[i]);
  return bits;
}

static void remember(void) {
  mask_bytes = get(0, sizeof start_mask, start_mask);
  need(mask_bytes > 0);
}

static int nth_cpu(int n) {
  for (int cpu = 0; cpu < mask_bytes * 8; cpu++)
    if (start_mask[cpu / 64] >> cpu % 64 & 1 && n-- == 0) return cpu;
  return -1;
}

static void only(unsigned long *mask, int cpu) {
  memset(mask, 0, sizeof start_mask);
  mask[cpu / 64] = 1UL << cpu % 64;
}

CASE(get_sizes) {
  unsigned long mask[128];
  remember();
  static const size_t sizes[] = {0, 1, 4, 7, 12, 8 * 128 - 1, 8 * 128};
  for (int i = 0; i < COUNT(sizes); i++) {
    long answer = get(0, sizes[i], mask);
    say("size %zu: %s", sizes[i], answer > 0 ? "bytes" : result(answer));
  }
  say("whole words %d, at least one CPU %d", mask_bytes % 8 == 0, count(start_mask) >= 1);
  say("bad place %s", result(get(0, 128, (void *)8)));
  say("negative pid %s", result(get(-1, 128, mask)));
  say("no such pid %s", result(get(0x3ffffff0, 128, mask)));
}

CASE(set_refused) {
  unsigned long mask[128] = {0};
  remember();
  say("empty %s", result(set(0, sizeof mask, mask)));
  say("no size %s", result(set(0, 0, start_mask)));
  say("bad place %s", result(set(0, sizeof mask, (void *)8)));
  say("negative pid %s", result(set(-1, sizeof mask, start_mask)));
  say("no such pid %s", result(set(0x3ffffff0, sizeof mask, start_mask)));
  mask[127] = 1UL << 63;
  say("a CPU that does not exist %s", result(set(0, sizeof mask, mask)));
  mask[nth_cpu(0) / 64] |= 1UL << nth_cpu(0) % 64;
  say("and one that does %s", result(set(0, sizeof mask, mask)));
  unsigned long now[128] = {0};
  must(get(0, sizeof now, now) == mask_bytes);
  say("CPUs now %d", count(now));
  say("short mask %s", result(set(0, 3, start_mask)));
}

CASE(one_by_one) {
  remember();
  for (int n = 0; nth_cpu(n) >= 0; n++) {
    unsigned long mask[128], got[128] = {0};
    only(mask, nth_cpu(n));
    must(set(0, sizeof mask, mask) == 0);
    for (int i = 0; i < 200; i++) {
      must(sched_getcpu() == nth_cpu(n));
      if (i % 10 == 0) sched_yield();
    }
    must(get(0, sizeof got, got) == mask_bytes && memcmp(got, mask, mask_bytes) == 0);
  }
  must(set(0, sizeof start_mask, start_mask) == 0);
  say("done");
}

static void *show_inherited(void *mask) {
  unsigned long got[128] = {0};
  must(get(0, sizeof got, got) == mask_bytes);
  say("inherited %d", memcmp(got, mask, mask_bytes) == 0);
  return NULL;
}

CASE(inherited) {
  unsigned long mask[128];
  remember();
  only(mask, nth_cpu(0));
  must(set(0, sizeof mask, mask) == 0);
  finish(start(show_inherited, mask));
  pid_t child = fork();
  if (child == 0) {
    show_inherited(mask);
    _exit(0);
  }
  waitpid(child, NULL, 0);
}

static atomic_bool stop;
static atomic_int last_cpu;
static _Atomic pid_t spinner;

static void *spin(void *unused) {
  spinner = gettid();
  while (!stop) last_cpu = sched_getcpu();
  return unused;
}

/* Set from outside, on a thread that never waits. */
CASE(of_a_spinning_thread) {
  remember();
  stop = false;
  spinner = 0;
  pthread_t thread = start(spin, NULL);
  wait_until(spinner);
  for (int round = 0; round < 50; round++) {
    for (int n = 0; nth_cpu(n) >= 0; n++) {
      unsigned long mask[128];
      only(mask, nth_cpu(n));
      must(set(spinner, sizeof mask, mask) == 0);
      wait_until(last_cpu == nth_cpu(n));
    }
  }
  stop = true;
  finish(thread);
  say("done");
}

static void *wander(void *unused) {
  for (int i = 0; i < 300; i++) {
    unsigned long mask[128];
    int n = 0;
    while (nth_cpu(n) >= 0) n++;
    int cpu = nth_cpu(i % n);
    only(mask, cpu);
    must(set(0, sizeof mask, mask) == 0);
    must(sched_getcpu() == cpu);
  }
  return unused;
}

CASE(many_wander) {
  pthread_t threads[10];
  remember();
  for (int i = 0; i < 10; i++) threads[i] = start(wander, NULL);
  for (int i = 0; i < 10; i++) finish(threads[i]);
  say("done");
}

CASE(getcpu) {
  unsigned cpu, node;
  remember();
  say("getcpu %s", result(syscall(SYS_getcpu, &cpu, &node, NULL)));
  say("with nothing %s", result(syscall(SYS_getcpu, NULL, NULL, NULL)));
  say("bad place %s", result(syscall(SYS_getcpu, (void *)8, NULL, NULL)));
  must(start_mask[cpu / 64] >> cpu % 64 & 1);
}

/* Processes of one thread each are left to the host: they do not all run on one CPU while others are idle. */
static void *compute_a_little(void *argument) {
  for (volatile int i = 0; i < 3000000; i++) {}
  return argument;
}
static int cpus_of(pid_t process) {
  char path[64], line[256];
  snprintf(path, sizeof path, "/proc/%d/status", process);
  FILE *file = fopen(path, "r");
  need(file);
  int count = -1;
  while (fgets(line, sizeof line, file))
    if (strncmp(line, "Cpus_allowed:", 13) == 0) {
      count = 0;
      for (char *digit = line + 13; *digit; digit++)
        if (isxdigit(*digit)) count += __builtin_popcount(isdigit(*digit) ? *digit - '0' : *digit - 'a' + 10);
    }
  fclose(file);
  return count;
}
CASE(child_of_one_thread_runs_anywhere) {
  cpu_set_t mine;
  need(sched_getaffinity(0, sizeof mine, &mine) == 0);
  /* Its parent's threads have run on all CPUs by then. */
  pthread_t threads[8];
  for (int i = 0; i < COUNT(threads); i++) threads[i] = start(compute_a_little, NULL);
  for (int i = 0; i < COUNT(threads); i++) finish(threads[i]);
  int ends[2];
  need(pipe(ends) == 0);
  pid_t child = fork();
  if (child == 0) {
    compute_a_little(NULL);
    need(write(ends[1], "x", 1) == 1);
    for (;;) pause();
  }
  char byte;
  need(read(ends[0], &byte, 1) == 1);
  say("has one CPU of many: %d", cpus_of(child) == 1 && CPU_COUNT(&mine) > 1);
  kill(child, SIGKILL);
  need(waitpid(child, NULL, 0) == child);
}
