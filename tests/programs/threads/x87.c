/* The x87 registers of threads that others wake. */
#include "../check.h"
#include <linux/futex.h>
#include <sys/syscall.h>

#define WAITING 4

static int ends[2], words[WAITING];
static atomic_bool divided[WAITING];
static long double found[WAITING];

/* Waits for its word, divides, and then waits in the host, so that the next thread needs another host thread. */
static void *divide(void *which) {
  long i = (long)which;
  char byte;
  while (!__atomic_load_n(&words[i], __ATOMIC_ACQUIRE)) syscall(SYS_futex, &words[i], FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
  volatile long double one = 1, ten = 10;
  found[i] = one / ten;
  divided[i] = true;
  must(read(ends[0], &byte, 1) == 1);
  return NULL;
}

/* Wakes a thread with all eight registers in use; what the first one then holds. */
static long double wake_with_full_registers(int *word) {
  long result = SYS_futex;
  long double first;
  __atomic_store_n(word, 1, __ATOMIC_RELEASE);
  __asm__ volatile(
      "fld1; fldl2t; fldl2e; fldpi; fldlg2; fldln2; fldz; fldpi\n\t"
      "syscall\n\t"
      "fstp %%st(0); fstp %%st(0); fstp %%st(0); fstp %%st(0); fstp %%st(0); fstp %%st(0); fstp %%st(0)"
      : "+a"(result), "=t"(first)
      : "D"((long)word), "S"((long)FUTEX_WAKE_PRIVATE), "d"(1L)
      : "rcx", "r11", "memory");
  must(result >= 0);
  return first;
}

/* Each thread finds all registers free, also on a host thread that was made in the middle of the call that woke it. */
CASE(free_in_those_that_are_woken) {
  must(pipe(ends) == 0);
  pthread_t threads[WAITING];
  for (long i = 0; i < WAITING; i++) threads[i] = start(divide, (void *)i);
  usleep(20000);
  for (int i = 0; i < WAITING; i++) {
    must(wake_with_full_registers(&words[i]) == 1);
    while (!divided[i]) {}
    must(found[i] == 0.1L);
    /* Busy, until the thread waits in the host. */
    for (volatile int step = 0; step < 20000000; step++) {}
  }
  for (int i = 0; i < WAITING; i++) must(write(ends[1], "x", 1) == 1);
  for (int i = 0; i < WAITING; i++) finish(threads[i]);
  close(ends[0]), close(ends[1]);
  say("all free");
}

static atomic_bool enough;
static atomic_long computed, wrong;

static void *compute(void *unused) {
  volatile long double one = 1, ten = 10;
  while (!enough) {
    sched_yield();
    if (one / ten != 0.1L) atomic_fetch_add(&wrong, 1);
    atomic_fetch_add(&computed, 1);
  }
  return unused;
}

static void give_way(int signal) {
  (void)signal;
  for (int i = 0; i < 4; i++) sched_yield();
}

/* A handler that interrupts a computation with all registers in use gives the CPU to a thread that finds them free. */
CASE(free_behind_a_handler_that_yields) {
  struct sigaction action = {.sa_handler = give_way};
  need(sigaction(SIGUSR1, &action, NULL) == 0);
  pthread_t thread = start(compute, NULL);
  for (int i = 0; i < 500; i++) {
    long result = SYS_tgkill;
    __asm__ volatile(
        "fld1; fldl2t; fldl2e; fldpi; fldlg2; fldln2; fldz; fldpi\n\t"
        "syscall\n\t"
        "fninit"
        : "+a"(result)
        : "D"((long)getpid()), "S"((long)gettid()), "d"((long)SIGUSR1)
        : "rcx", "r11", "memory");
    must(result == 0);
  }
  while (computed == 0) sched_yield();
  enough = true;
  finish(thread);
  say("wrong: %ld", (long)wrong);
}
