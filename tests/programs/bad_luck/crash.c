//@ status: any
//@ cpus: default
/* Each case is the end of the program: the same signal or status, the same words on the error stream. */
#include "../check.h"
#include <sys/resource.h>

static volatile int *volatile low_address = (int *)16;

static void segv(void) { *low_address = 1; }
static void fpe(void) { __asm__ volatile("cltd; idiv %1" : : "a"(1), "r"(0) : "rdx"); }
static void ill(void) { __asm__ volatile("ud2"); }
static void bus(void) {
  volatile char *place = mmap(NULL, 4096, PROT_READ, MAP_SHARED, memfd_create("empty", 0), 0);
  (void)place[0];
}

static int __attribute__((noinline)) deepen(volatile char *above, long left) {
  volatile char page[4096];
  page[0] = above[4095];
  return left == 0 ? page[0] : deepen(page, left - 1) + page[4095];
}

static void overflow(void) {
  char page[4096] = "";
  deepen(page, LONG_MAX);
}

static void *in_thread(void *crash) {
  ((void (*)(void))crash)();
  return NULL;
}

static void *spin(void *unused) {
  for (;;) __asm__ volatile("");
  return unused;
}

static void by_thread(void (*crash)(void)) {
  for (int i = 0; i < 3; i++) start(spin, NULL);
  finish(start(in_thread, (void *)crash));
}

CASE(segmentation_fault) { segv(); }
CASE(segmentation_fault_of_a_thread) { by_thread(segv); }
CASE(division_by_zero) { fpe(); }
CASE(division_by_zero_of_a_thread) { by_thread(fpe); }
CASE(illegal_instruction) { ill(); }
CASE(illegal_instruction_of_a_thread) { by_thread(ill); }
CASE(bus_error) { bus(); }
CASE(bus_error_of_a_thread) { by_thread(bus); }
CASE(breakpoint) { __asm__ volatile("int3"); }
CASE(aborted) { abort(); }
CASE(aborted_by_a_thread) { by_thread(abort); }
CASE(stack_overflow) { overflow(); }
CASE(stack_overflow_of_a_thread) { by_thread(overflow); }
CASE(call_of_nowhere) { ((void (*)(void))low_address)(); }
CASE(killed_by_itself) { kill(getpid(), SIGKILL); }
CASE(terminated_by_itself) { kill(getpid(), SIGTERM); }
CASE(raised_real_time_signal) { raise(SIGRTMIN + 4); }

static void raise_usr1(void) { raise(SIGUSR1); }
CASE(raised_by_a_thread) { by_thread(raise_usr1); }

static void free_twice(void) {
  char *place = malloc(100);
  char *volatile again = place;
  free(place);
  free(again);
}
CASE(free_twice_of_a_thread) { by_thread(free_twice); }

/* Blocked or ignored, a fault is deadly all the same. */
CASE(segmentation_fault_while_blocked) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  segv();
}
CASE(segmentation_fault_while_ignored) {
  signal(SIGSEGV, SIG_IGN);
  segv();
}

CASE(core_is_dumped) {
  char dir[] = "/tmp/entresol-core-XXXXXX";
  need(mkdtemp(dir) && chdir(dir) == 0);
  pid_t child = fork();
  if (child == 0) {
    struct rlimit limit;
    getrlimit(RLIMIT_CORE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_CORE, &limit);
    by_thread(segv);
  }
  int status;
  need(waitpid(child, &status, 0) == child);
  say("%s, core dumped %d", ended(status), WCOREDUMP(status) != 0);
  if (system("rm -rf \"$PWD\"") != 0) say("not removed");
}
