/* Mutexes that processes share: with inheritance, robust, and of processes that are killed. */
#include "../check.h"

static pthread_mutex_t *mutexes(int count, int protocol, int robust) {
  pthread_mutex_t *place =
      mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  need(place != MAP_FAILED);
  pthread_mutexattr_t attr;
  pthread_mutexattr_init(&attr);
  pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setprotocol(&attr, protocol);
  pthread_mutexattr_setrobust(&attr, robust);
  for (int i = 0; i < count; i++) need(pthread_mutex_init(&place[i], &attr) == 0);
  return place;
}

static volatile long *counter(pthread_mutex_t *place) { return (volatile long *)((char *)place + 2048); }

static void wait_for(pid_t child) {
  int status;
  need(waitpid(child, &status, 0) == child);
  say("child: %s", ended(status));
}

enum { ROUNDS = 1000, THREADS = 4 };

static void *add(void *argument) {
  pthread_mutex_t *mutex = argument;
  for (int i = 0; i < ROUNDS; i++) {
    need(pthread_mutex_lock(mutex) == 0);
    long before = *counter(mutex);
    if (i % 50 == 0) sched_yield();
    *counter(mutex) = before + 1;
    need(pthread_mutex_unlock(mutex) == 0);
  }
  return NULL;
}

/* Two processes of four threads each count together. */
static void count_together(int protocol, int robust) {
  pthread_mutex_t *mutex = mutexes(1, protocol, robust);
  pid_t child = fork();
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) threads[i] = start(add, mutex);
  for (int i = 0; i < THREADS; i++) finish(threads[i]);
  if (child == 0) _exit(0);
  wait_for(child);
  say("counted %ld", *counter(mutex));
}

CASE(plain) { count_together(PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED); }
CASE(robust) { count_together(PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST); }
CASE(inheriting) { count_together(PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED); }
CASE(inheriting_and_robust) { count_together(PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_ROBUST); }

static void *lock_and_stay(void *argument) {
  need(pthread_mutex_lock(argument) == 0);
  *counter(argument) = 1;
  for (;;) pause();
}

static void *lock_and_go(void *argument) {
  need(pthread_mutex_lock(argument) == 0);
  return argument;
}

static pthread_mutex_t *wanted;
static atomic_int got;
/* How they wait: without end, or up to a moment that is far away, by this clock. */
static clockid_t by = -1;
static int lock_wanted(void) {
  if (by == -1) return pthread_mutex_lock(wanted);
  struct timespec until = timespec_of(now_ns(by) + INT64_C(40000000000));
  return by == CLOCK_REALTIME ? pthread_mutex_timedlock(wanted, &until) : pthread_mutex_clocklock(wanted, by, &until);
}
static void *take(void *argument) {
  int error = lock_wanted();
  if (error == EOWNERDEAD) {
    must(pthread_mutex_consistent(wanted) == 0);
    got += 100;
  } else {
    must(error == 0);
    got++;
  }
  need(pthread_mutex_unlock(wanted) == 0);
  return argument;
}

/* Whether the owner stays a zombie until its lock is had. */
static bool stays;

/* The owner's process is killed while others wait for it. One of them hears of it. */
static void owner_is_killed(int protocol, void *(*own)(void *), bool in_thread) {
  wanted = mutexes(1, protocol, PTHREAD_MUTEX_ROBUST);
  got = 0;
  pid_t child = fork();
  if (child == 0) {
    if (in_thread) finish(start(own, wanted));
    own(wanted);
  }
  wait_until(*counter(wanted) == 1);
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) threads[i] = start(take, NULL);
  settle();
  kill(child, SIGKILL);
  if (!stays) wait_for(child);
  for (int i = 0; i < 3; i++) finish(threads[i]);
  if (stays) wait_for(child);
  say("got %d", got);
}

CASE(killed) { owner_is_killed(PTHREAD_PRIO_NONE, lock_and_stay, false); }
CASE(killed_thread) { owner_is_killed(PTHREAD_PRIO_NONE, lock_and_stay, true); }
CASE(killed_thread_by_realtime) {
  by = CLOCK_REALTIME;
  owner_is_killed(PTHREAD_PRIO_NONE, lock_and_stay, true);
  by = -1;
}
CASE(killed_thread_by_monotonic) {
  by = CLOCK_MONOTONIC;
  owner_is_killed(PTHREAD_PRIO_NONE, lock_and_stay, true);
  by = -1;
}
CASE(zombie) {
  stays = true;
  owner_is_killed(PTHREAD_PRIO_NONE, lock_and_stay, false);
  owner_is_killed(PTHREAD_PRIO_NONE, lock_and_stay, true);
  owner_is_killed(PTHREAD_PRIO_INHERIT, lock_and_stay, false);
  owner_is_killed(PTHREAD_PRIO_INHERIT, lock_and_stay, true);
  stays = false;
}
CASE(killed_thread_with_inheritance_by_realtime) {
  by = CLOCK_REALTIME;
  owner_is_killed(PTHREAD_PRIO_INHERIT, lock_and_stay, true);
  by = -1;
}
CASE(killed_with_inheritance) { owner_is_killed(PTHREAD_PRIO_INHERIT, lock_and_stay, false); }
CASE(killed_thread_with_inheritance) { owner_is_killed(PTHREAD_PRIO_INHERIT, lock_and_stay, true); }

/* A thread ends with the lock, its process goes on. */
static void owner_ends(int protocol) {
  wanted = mutexes(1, protocol, PTHREAD_MUTEX_ROBUST);
  got = 0;
  pid_t child = fork();
  if (child == 0) {
    finish(start(lock_and_go, wanted));
    *counter(wanted) = 1;
    for (;;) pause();
  }
  wait_until(*counter(wanted) == 1);
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) threads[i] = start(take, NULL);
  for (int i = 0; i < 3; i++) finish(threads[i]);
  say("got %d", got);
  kill(child, SIGKILL);
  wait_for(child);
}

CASE(thread_ends) { owner_ends(PTHREAD_PRIO_NONE); }
CASE(thread_ends_with_inheritance) { owner_ends(PTHREAD_PRIO_INHERIT); }

/* Nobody is told of the end of an owner whose lock is not robust. */
CASE(not_robust) {
  pthread_mutex_t *mutex = mutexes(1, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED);
  pid_t child = fork();
  if (child == 0) {
    lock_and_go(mutex);
    _exit(0);
  }
  wait_for(child);
  say("try %s", errname(pthread_mutex_trylock(mutex)));
  struct timespec until = timespec_of(now_ns(CLOCK_REALTIME) + 50000000);
  say("timed %s", errname(pthread_mutex_timedlock(mutex, &until)));
}

CASE(answers) {
  pthread_mutex_t *mutex = mutexes(1, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED);
  pid_t child = fork();
  if (child == 0) lock_and_stay(mutex);
  wait_until(*counter(mutex) == 1);
  say("try %s", errname(pthread_mutex_trylock(mutex)));
  int64_t before = now_ns(CLOCK_REALTIME);
  struct timespec until = timespec_of(before + 50000000);
  say("for a while %s", errname(pthread_mutex_timedlock(mutex, &until)));
  must(now_ns(CLOCK_REALTIME) - before >= 50000000);
  before = now_ns(CLOCK_MONOTONIC);
  until = timespec_of(before + 50000000);
  say("by another clock %s", errname(pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &until)));
  must(now_ns(CLOCK_MONOTONIC) - before >= 50000000);
  say("unlock %s", errname(pthread_mutex_unlock(mutex)));
  kill(child, SIGKILL);
  wait_for(child);
}
