/* Threads that each make one call that waits, and what they are told. */
#ifndef WAITERS_H
#define WAITERS_H

#include "../check.h"
#include <fcntl.h>

#ifndef WAITERS
#define WAITERS 24
#endif

struct waiter {
  long (*call)(struct waiter *);
  int fd, other, number;
  atomic_int tid, ended;
  long result;
  int error;
  char bytes[64];
  pthread_t thread;
};
static struct waiter waiters[WAITERS];

static void *wait_in(void *argument) {
  struct waiter *w = argument;
  atomic_store(&w->tid, gettid());
  w->result = w->call(w);
  w->error = w->result < 0 ? errno : 0;
  atomic_store(&w->ended, 1);
  return NULL;
}

/* Asleep or dead: what a look from outside tells. */
static bool sleeps(struct waiter *w) {
  if (atomic_load(&w->ended)) return true;
  return state_of(atomic_load(&w->tid)) == 'S';
}

__attribute__((unused)) static void begin(int count, long (*call)(struct waiter *)) {
  for (int i = 0; i < count; i++) {
    struct waiter *w = &waiters[i];
    w->call = call, w->number = i, w->result = 0, w->error = 0;
    atomic_store(&w->tid, 0), atomic_store(&w->ended, 0);
    w->thread = start(wait_in, w);
  }
  for (int i = 0; i < count; i++) wait_until(atomic_load(&waiters[i].tid) != 0 && sleeps(&waiters[i]));
}

__attribute__((unused)) static int over(int count) {
  int n = 0;
  for (int i = 0; i < count; i++) n += atomic_load(&waiters[i].ended);
  return n;
}

/* How many ended with which result. */
__attribute__((unused)) static void join(const char *what, int count) {
  char text[256] = "";
  long results[WAITERS];
  int errors[WAITERS], seen = 0, numbers[WAITERS] = {0};
  for (int i = 0; i < count; i++) {
    finish(waiters[i].thread);
    int k = 0;
    while (k < seen && (results[k] != waiters[i].result || errors[k] != waiters[i].error)) k++;
    if (k == seen) results[seen] = waiters[i].result, errors[seen++] = waiters[i].error;
    numbers[k]++;
  }
  for (int k = 0; k < seen; k++) {
    int least = k;
    for (int j = k; j < seen; j++)
      if (results[j] < results[least] || (results[j] == results[least] && errors[j] < errors[least])) least = j;
    long r = results[k]; int e = errors[k], n = numbers[k];
    results[k] = results[least], errors[k] = errors[least], numbers[k] = numbers[least];
    results[least] = r, errors[least] = e, numbers[least] = n;
    snprintf(text + strlen(text), sizeof text - strlen(text), " %d x %ld %s", numbers[k], results[k], errname(errors[k]));
  }
  say("%s:%s", what, text);
}

#endif
