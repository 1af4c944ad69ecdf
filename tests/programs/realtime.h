/* Real-time threads on one CPU, where the order of running is fixed by priorities alone. */
#ifndef REALTIME_H
#define REALTIME_H

#include "check.h"
#include <semaphore.h>

/* The first CPU that this process may use. */
__attribute__((unused)) static int first_cpu(void) {
  cpu_set_t set;
  need(sched_getaffinity(0, sizeof set, &set) == 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &set)) cpu++;
  return cpu;
}

__attribute__((unused)) static void pin_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  need(sched_setaffinity(0, sizeof set, &set) == 0);
}

__attribute__((unused)) static void set_priority(pid_t thread, int policy, int priority) {
  struct sched_param param = {.sched_priority = priority};
  need(sched_setscheduler(thread, policy, &param) == 0);
}

/* The caller gets the highest priority of all, on one CPU that every thread started later shares: what it
 * starts or wakes runs when it waits, never before. */
__attribute__((unused)) static void conduct(void) {
  pin_to(first_cpu());
  set_priority(0, SCHED_FIFO, 90);
}

__attribute__((unused)) static pthread_t start_as(int policy, int priority, void *(*body)(void *), void *argument) {
  pthread_attr_t attr;
  pthread_t thread;
  struct sched_param param = {.sched_priority = priority};
  need(pthread_attr_init(&attr) == 0);
  need(pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED) == 0);
  need(pthread_attr_setschedpolicy(&attr, policy) == 0);
  need(pthread_attr_setschedparam(&attr, &param) == 0);
  errno = pthread_create(&thread, &attr, body, argument);
  need(errno == 0);
  return thread;
}

/* What ran, in order. */
static char logged[2048];
static atomic_int logged_bytes;

__attribute__((format(printf, 1, 2), unused)) static void note(const char *format, ...) {
  char text[64] = " ";
  va_list args;
  va_start(args, format);
  int size = 1 + vsnprintf(text + 1, sizeof text - 1, format, args);
  va_end(args);
  int place = atomic_fetch_add(&logged_bytes, size);
  need(place + size < (int)sizeof logged);
  memcpy(logged + place, text, size);
}

__attribute__((unused)) static void say_log(const char *what) {
  say("%s:%.*s", what, logged_bytes, logged);
  memset(logged, 0, sizeof logged);
  logged_bytes = 0;
}

/* The conductor waits until nobody of lower priority wants to run. A thread of the lowest priority says so. */
__attribute__((unused)) static void *post_it(void *semaphore) {
  sem_post(semaphore);
  return NULL;
}

__attribute__((unused)) static void let_others_run(void) {
  sem_t idle;
  sem_init(&idle, 0, 0);
  pthread_t last = start_as(SCHED_FIFO, 1, post_it, &idle);
  while (sem_wait(&idle) == -1) {}
  pthread_join(last, NULL);
}

#endif
