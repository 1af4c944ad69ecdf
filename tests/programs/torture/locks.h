/* Locks, and the numbers they guard: two that are equal whenever nobody holds the lock. */
#ifndef LOCKS_H
#define LOCKS_H

#include "torture.h"

enum { GUARDED = 6 };

struct guarded {
  pthread_mutex_t mutex;
  pthread_cond_t cond;
  volatile uint64_t first, second;
};

static struct guarded robust[GUARDED], inheriting[GUARDED], plain[GUARDED];

static void init_guarded(struct guarded *list, int count, int protocol, int robustness) {
  pthread_mutexattr_t attr;
  pthread_condattr_t cond_attr;
  pthread_mutexattr_init(&attr);
  pthread_mutexattr_setprotocol(&attr, protocol);
  pthread_mutexattr_setrobust(&attr, robustness);
  pthread_condattr_init(&cond_attr);
  pthread_condattr_setclock(&cond_attr, CLOCK_MONOTONIC);
  for (int i = 0; i < count; i++) {
    pthread_mutex_init(&list[i].mutex, &attr);
    pthread_cond_init(&list[i].cond, &cond_attr);
  }
}

static void init_locks(void) {
  init_guarded(robust, GUARDED / 2, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST);
  init_guarded(robust + GUARDED / 2, GUARDED / 2, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_ROBUST);
  init_guarded(inheriting, GUARDED, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED);
  init_guarded(plain, GUARDED, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED);
}

/* Between the two steps anything may happen. */
static void dawdle(void) {
  switch (dice(6)) {
  case 0: sched_yield(); break;
  case 1:
    for (volatile uint64_t i = dice(20000); i > 0; i--) {}
    break;
  case 2: nanosleep(&(struct timespec){0, (long)dice(20000)}, NULL); break;
  }
}

static void change_guarded(struct guarded *guarded) {
  check(guarded->first == guarded->second, "two were inside: %llu and %llu", (unsigned long long)guarded->first,
        (unsigned long long)guarded->second);
  uint64_t value = guarded->first + 1;
  guarded->first = value;
  dawdle();
  check(guarded->first == value && guarded->second == value - 1, "another was inside");
  guarded->second = value;
}

static void lock_inheriting(void) {
  struct guarded *guarded = &inheriting[dice(GUARDED)];
  check(pthread_mutex_lock(&guarded->mutex) == 0, "lock failed");
  change_guarded(guarded);
  check(pthread_mutex_unlock(&guarded->mutex) == 0, "unlock failed");
}

/* Two at a time, in order of their addresses: chains of owners arise. */
static void lock_two_inheriting(void) {
  int low = (int)dice(GUARDED - 1), high = low + 1 + (int)dice(GUARDED - 1 - low);
  check(pthread_mutex_lock(&inheriting[low].mutex) == 0, "first lock failed");
  check(pthread_mutex_lock(&inheriting[high].mutex) == 0, "second lock failed");
  change_guarded(&inheriting[low]);
  change_guarded(&inheriting[high]);
  check(pthread_mutex_unlock(&inheriting[low].mutex) == 0, "first unlock failed");
  check(pthread_mutex_unlock(&inheriting[high].mutex) == 0, "second unlock failed");
}

/* An owner that died left the two numbers apart; whoever comes next mends them. */
static void lock_robust(struct guarded *guarded) {
  int answer = pthread_mutex_lock(&guarded->mutex);
  check(answer == 0 || answer == EOWNERDEAD, "lock answered %d", answer);
  if (answer == EOWNERDEAD) {
    check(guarded->first == guarded->second + 1, "the dead owner left %llu and %llu",
          (unsigned long long)guarded->first, (unsigned long long)guarded->second);
    guarded->second = guarded->first;
    check(pthread_mutex_consistent(&guarded->mutex) == 0, "not made consistent");
  }
}

static void use_robust(void) {
  struct guarded *guarded = &robust[dice(GUARDED)];
  lock_robust(guarded);
  change_guarded(guarded);
  check(pthread_mutex_unlock(&guarded->mutex) == 0, "unlock failed");
}

/* For a thread that is about to end. */
static void die_with_robust(void) {
  struct guarded *guarded = &robust[dice(GUARDED)];
  lock_robust(guarded);
  guarded->first++;
  dawdle();
}

/* Some wait for a signal, some for a time: never less than that. */
static void wait_condition(void) {
  struct guarded *guarded = &plain[dice(GUARDED)];
  check(pthread_mutex_lock(&guarded->mutex) == 0, "lock failed");
  if (dice(2)) {
    change_guarded(guarded);
    if (dice(2)) pthread_cond_signal(&guarded->cond);
    else pthread_cond_broadcast(&guarded->cond);
  } else {
    int64_t until = monotonic_ns() + (int64_t)dice(400000);
    struct timespec time = {until / 1000000000, until % 1000000000};
    int answer = pthread_cond_timedwait(&guarded->cond, &guarded->mutex, &time);
    check(answer == 0 || answer == ETIMEDOUT, "timed wait answered %d", answer);
    check(answer == 0 || monotonic_ns() >= until, "timed wait ended %lld ns early", (long long)(until - monotonic_ns()));
    change_guarded(guarded);
  }
  check(pthread_mutex_unlock(&guarded->mutex) == 0, "unlock failed");
}

#endif
