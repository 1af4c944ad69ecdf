/* What every activity of the torture program sees of the worker that runs it. */
#ifndef TORTURE_H
#define TORTURE_H

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct worker {
  int index;
  pthread_t thread;
  pid_t tid;
  uint64_t random;
  uint64_t checks;
  _Atomic(const char *) activity;
  atomic_bool begun, ended;
  /* By its own clock, when it last looked. */
  _Atomic int64_t consumed;
};

static atomic_long corruptions;
static _Thread_local struct worker *me;
static struct worker *workers;
static int worker_count;

/* Says what broke and by whom; the program goes on, for the pattern of several breaks tells more than one. */
__attribute__((format(printf, 1, 2))) static void broken(const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (atomic_fetch_add(&corruptions, 1) < 50)
    fprintf(stderr, "torture: thread %d (tid %d), %s: %s\n", me ? me->index : -1, (int)gettid(),
            me ? atomic_load(&me->activity) : "start", text);
}

#define check(condition, ...)                                                                                  \
  do {                                                                                                         \
    if (me) me->checks++;                                                                                      \
    if (!(condition)) broken(__VA_ARGS__);                                                                     \
  } while (0)

/* xorshift64*: each worker has its own, so that a seed names one program (not one order of running). */
static uint64_t next_random(uint64_t *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return *state * UINT64_C(0x2545f4914f6cdd1d);
}

static uint64_t dice(uint64_t sides) { return next_random(&me->random) % sides; }

static int64_t monotonic_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

#endif
