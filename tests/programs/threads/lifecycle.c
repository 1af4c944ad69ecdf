//@ hardened
/* Threads begin, end, are joined and detached. */
//@ forms: static-pie
#include "../check.h"
#include <semaphore.h>

static void *add_one(void *counter) {
  atomic_fetch_add((atomic_int *)counter, 1);
  return counter;
}

static void *echo(void *value) { return value; }

CASE(create_join_churn) {
  atomic_int counter = 0;
  for (int i = 0; i < 5000; i++) must(finish(start(add_one, &counter)) == &counter);
  say("%d threads", counter);
}

static uintptr_t deep_from;
enum { DEEP = 4 << 20 };

__attribute__((noinline)) static void *use_deep_stack(void *value) {
  char bytes[DEEP];
  for (int i = 0; i < DEEP; i += 4096) *(volatile char *)&bytes[i] = 1;
  deep_from = (uintptr_t)bytes;
  return value;
}

/* The C library keeps the stack of a thread that has ended, but what the thread has used of it is the host's again. */
CASE(deep_stack_is_given_back) {
  atomic_int counter = 0;
  for (int i = 0; i < 10; i++) finish(start(add_one, &counter));
  must(finish(start(use_deep_stack, &counter)) == &counter);
  static unsigned char resident[DEEP / 4096];
  int pages = 0;
  must(mincore((void *)(deep_from & -4096), DEEP, resident) == 0);
  for (int i = 0; i < DEEP / 4096; i++) pages += resident[i] & 1;
  say("%d threads, few of %d pages left %d", counter, DEEP / 4096, pages < 64);
}

CASE(many_at_once) {
  enum { THREADS = 300 };
  pthread_t threads[THREADS];
  intptr_t sum = 0;
  for (int i = 0; i < THREADS; i++) threads[i] = start(echo, (void *)(intptr_t)i);
  for (int i = 0; i < THREADS; i++) sum += (intptr_t)finish(threads[i]);
  say("sum of the values %ld", (long)sum);
}

/* glibc 2.36 reads the descriptor of a thread after it has detached it. The thread may have ended by then, and a stack that
 * does not fit the C library's cache is unmapped: small stacks do fit. */
CASE(detach_churn) {
  atomic_int counter = 0;
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  must(pthread_attr_setstacksize(&attr, 64 << 10) == 0);
  for (int i = 0; i < 2000; i++) {
    pthread_t thread;
    must(pthread_create(&thread, &attr, add_one, &counter) == 0);
    must(pthread_detach(thread) == 0);
  }
  wait_until(counter == 2000);
  say("%d threads", counter);
}

CASE(created_detached) {
  atomic_int counter = 0;
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  for (int i = 0; i < 500; i++) {
    pthread_t thread;
    must(pthread_create(&thread, &attr, add_one, &counter) == 0);
  }
  wait_until(counter == 500);
  say("%d threads", counter);
}

static void *detach_self(void *counter) {
  must(pthread_detach(pthread_self()) == 0);
  return add_one(counter);
}

CASE(detach_self_churn) {
  atomic_int counter = 0;
  for (int i = 0; i < 500; i++) start(detach_self, &counter);
  wait_until(counter == 500);
  say("%d threads", counter);
}

static sem_t release;

static void *wait_for_release(void *value) {
  while (sem_wait(&release) == -1) {}
  return value;
}

CASE(join_errors) {
  sem_init(&release, 0, 0);
  pthread_t thread = start(wait_for_release, NULL);
  struct timespec soon = timespec_of(now_ns(CLOCK_REALTIME) + 20000000);
  say("tryjoin of a running thread %s", errname(pthread_tryjoin_np(thread, NULL)));
  say("timed join of a running thread %s", errname(pthread_timedjoin_np(thread, NULL, &soon)));
  soon = timespec_of(now_ns(CLOCK_MONOTONIC) + 20000000);
  say("clock join of a running thread %s", errname(pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &soon)));
  say("join of oneself %s", errname(pthread_join(pthread_self(), NULL)));
  sem_post(&release);
  say("join %s", errname(pthread_join(thread, NULL)));
  thread = start(wait_for_release, NULL);
  pthread_detach(thread);
  say("join of a detached thread %s", errname(pthread_join(thread, NULL)));
  sem_post(&release);
}

CASE(exit_value_survives) {
  pthread_t thread = start(echo, (void *)0x1234);
  settle();
  say("value %p", finish(thread));
}

static void *tree(void *depth_pointer) {
  intptr_t depth = (intptr_t)depth_pointer;
  if (depth == 0) return (void *)1;
  pthread_t left = start(tree, (void *)(depth - 1)), right = start(tree, (void *)(depth - 1));
  return (void *)((intptr_t)finish(left) + (intptr_t)finish(right));
}

CASE(threads_that_start_threads) { say("leaves %ld", (long)(intptr_t)tree((void *)7)); }

static atomic_int ids_seen;
static pid_t ids[64];

static void *note_id(void *unused) {
  (void)unused;
  pid_t id = gettid();
  must(id == syscall(SYS_gettid));
  ids[atomic_fetch_add(&ids_seen, 1)] = id;
  wait_until(ids_seen == COUNT(ids));
  must(id == gettid());
  return NULL;
}

CASE(ids_are_unique) {
  pthread_t threads[COUNT(ids)];
  for (int i = 0; i < COUNT(ids); i++) threads[i] = start(note_id, NULL);
  for (int i = 0; i < COUNT(ids); i++) finish(threads[i]);
  int equal = 0;
  for (int i = 0; i < COUNT(ids); i++)
    for (int j = 0; j < i; j++) equal += ids[i] == ids[j];
  for (int i = 0; i < COUNT(ids); i++) equal += ids[i] == getpid();
  say("equal ids %d, main thread's is the process's %d", equal, gettid() == getpid());
}

static atomic_bool stop_spinning;

static void *spin(void *count) {
  while (!stop_spinning) ++*(volatile unsigned long *)count;
  return NULL;
}

/* Nobody yields: that all come to run shows preemption. */
CASE(spinners_share_the_cpus) {
  enum { THREADS = 12 };
  static volatile unsigned long counts[THREADS];
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) threads[i] = start(spin, (void *)&counts[i]);
  for (int i = 0; i < THREADS; i++)
    while (counts[i] < 1000) {}
  stop_spinning = true;
  for (int i = 0; i < THREADS; i++) finish(threads[i]);
  say("all ran");
}

static void *yield_often(void *unused) {
  (void)unused;
  for (int i = 0; i < 20000; i++) must(sched_yield() == 0);
  return NULL;
}

CASE(yield_churn) {
  pthread_t threads[8];
  for (int i = 0; i < COUNT(threads); i++) threads[i] = start(yield_often, NULL);
  for (int i = 0; i < COUNT(threads); i++) finish(threads[i]);
  say("done");
}
