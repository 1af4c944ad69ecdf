/* Mutexes of every kind. */
#include "../check.h"

static void init_mutex(pthread_mutex_t *mutex, int type, int protocol, int robust) {
  pthread_mutexattr_t attr;
  need(pthread_mutexattr_init(&attr) == 0);
  need(pthread_mutexattr_settype(&attr, type) == 0);
  need(pthread_mutexattr_setprotocol(&attr, protocol) == 0);
  need(pthread_mutexattr_setrobust(&attr, robust) == 0);
  need(pthread_mutex_init(mutex, &attr) == 0);
}

struct shared_count {
  pthread_mutex_t mutex;
  long count;
};

static void *count_up(void *argument) {
  struct shared_count *shared = argument;
  for (int i = 0; i < 20000; i++) {
    must(pthread_mutex_lock(&shared->mutex) == 0);
    long old = shared->count;
    if (i % 64 == 0) sched_yield();
    shared->count = old + 1;
    must(pthread_mutex_unlock(&shared->mutex) == 0);
  }
  return NULL;
}

static void contend(int type, int protocol, int robust) {
  struct shared_count shared = {.count = 0};
  pthread_t threads[6];
  init_mutex(&shared.mutex, type, protocol, robust);
  for (int i = 0; i < COUNT(threads); i++) threads[i] = start(count_up, &shared);
  for (int i = 0; i < COUNT(threads); i++) finish(threads[i]);
  say("count %ld, destroy %s", shared.count, errname(pthread_mutex_destroy(&shared.mutex)));
}

CASE(normal_contended) { contend(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED); }
CASE(adaptive_contended) { contend(PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED); }
CASE(recursive_contended) { contend(PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED); }
CASE(errorcheck_contended) { contend(PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED); }
CASE(robust_contended) { contend(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST); }
CASE(inherit_contended) { contend(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED); }
CASE(robust_inherit_contended) { contend(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_ROBUST); }
CASE(recursive_inherit_contended) { contend(PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED); }

static pthread_mutex_t mutex;

static void *try_all(void *unused) {
  (void)unused;
  say("other thread: trylock %s", errname(pthread_mutex_trylock(&mutex)));
  struct timespec soon = timespec_of(now_ns(CLOCK_REALTIME) + 10000000);
  int64_t before = now_ns(CLOCK_MONOTONIC);
  say("other thread: timedlock %s", errname(pthread_mutex_timedlock(&mutex, &soon)));
  soon = timespec_of(now_ns(CLOCK_MONOTONIC) + 10000000);
  say("other thread: clocklock %s", errname(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &soon)));
  must(now_ns(CLOCK_MONOTONIC) - before >= 10000000);
  soon.tv_nsec = 1000000000;
  say("other thread: bad time %s", errname(pthread_mutex_timedlock(&mutex, &soon)));
  return NULL;
}

static void semantics(int type, int protocol) {
  init_mutex(&mutex, type, protocol, PTHREAD_MUTEX_STALLED);
  say("lock %s", errname(pthread_mutex_lock(&mutex)));
  say("trylock by its owner %s", errname(pthread_mutex_trylock(&mutex)));
  finish(start(try_all, NULL));
  if (type != PTHREAD_MUTEX_NORMAL) {
    int again = pthread_mutex_lock(&mutex);
    say("lock by its owner %s", errname(again));
    if (again == 0) say("unlock %s", errname(pthread_mutex_unlock(&mutex)));
  }
  say("destroy while locked %s", errname(pthread_mutex_destroy(&mutex)));
  while (pthread_mutex_unlock(&mutex) == 0 && type == PTHREAD_MUTEX_RECURSIVE) {}
  if (type != PTHREAD_MUTEX_NORMAL) say("unlock when free %s", errname(pthread_mutex_unlock(&mutex)));
}

CASE(normal_semantics) { semantics(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE); }
CASE(recursive_semantics) { semantics(PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE); }
CASE(errorcheck_semantics) { semantics(PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE); }
CASE(inherit_semantics) { semantics(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT); }
CASE(inherit_errorcheck_semantics) { semantics(PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_INHERIT); }
CASE(inherit_recursive_semantics) { semantics(PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_INHERIT); }

static void *unlock_it(void *unused) {
  (void)unused;
  return (void *)(intptr_t)pthread_mutex_unlock(&mutex);
}

CASE(unlock_by_another) {
  init_mutex(&mutex, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED);
  pthread_mutex_lock(&mutex);
  say("errorcheck %s", errname((int)(intptr_t)finish(start(unlock_it, NULL))));
  init_mutex(&mutex, PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED);
  pthread_mutex_lock(&mutex);
  say("recursive with inheritance %s", errname((int)(intptr_t)finish(start(unlock_it, NULL))));
}

static void *lock_and_die(void *unused) {
  (void)unused;
  say("owner: %s", errname(pthread_mutex_lock(&mutex)));
  return NULL;
}

static void owner_dies(int protocol) {
  init_mutex(&mutex, PTHREAD_MUTEX_NORMAL, protocol, PTHREAD_MUTEX_ROBUST);
  finish(start(lock_and_die, NULL));
  say("next: %s", errname(pthread_mutex_lock(&mutex)));
  say("consistent: %s", errname(pthread_mutex_consistent(&mutex)));
  say("unlock: %s", errname(pthread_mutex_unlock(&mutex)));
  say("lock again: %s", errname(pthread_mutex_lock(&mutex)));
  say("unlock: %s", errname(pthread_mutex_unlock(&mutex)));
  finish(start(lock_and_die, NULL));
  say("trylock: %s", errname(pthread_mutex_trylock(&mutex)));
  say("unlock without consistent: %s", errname(pthread_mutex_unlock(&mutex)));
  say("lost: %s", errname(pthread_mutex_lock(&mutex)));
  say("lost, trylock: %s", errname(pthread_mutex_trylock(&mutex)));
}

CASE(robust_owner_dies) { owner_dies(PTHREAD_PRIO_NONE); }
CASE(robust_inherit_owner_dies) { owner_dies(PTHREAD_PRIO_INHERIT); }

static atomic_int locked;

static void *lock_wait_and_die(void *unused) {
  (void)unused;
  pthread_mutex_lock(&mutex);
  locked = 1;
  settle();
  return NULL;
}

static void *wait_for_dead(void *unused) {
  (void)unused;
  int answer = pthread_mutex_lock(&mutex);
  if (answer == EOWNERDEAD) must(pthread_mutex_consistent(&mutex) == 0);
  must(pthread_mutex_unlock(&mutex) == 0);
  return (void *)(intptr_t)answer;
}

static void owner_dies_before_waiters(int protocol) {
  pthread_t waiters[3];
  init_mutex(&mutex, PTHREAD_MUTEX_NORMAL, protocol, PTHREAD_MUTEX_ROBUST);
  pthread_t owner = start(lock_wait_and_die, NULL);
  wait_until(locked);
  for (int i = 0; i < COUNT(waiters); i++) waiters[i] = start(wait_for_dead, NULL);
  finish(owner);
  int dead = 0, fine = 0;
  for (int i = 0; i < COUNT(waiters); i++) {
    int answer = (int)(intptr_t)finish(waiters[i]);
    dead += answer == EOWNERDEAD;
    fine += answer == 0;
  }
  say("told that the owner died %d, not told %d", dead, fine);
  locked = 0;
}

CASE(robust_owner_dies_before_waiters) { owner_dies_before_waiters(PTHREAD_PRIO_NONE); }
CASE(robust_inherit_owner_dies_before_waiters) { owner_dies_before_waiters(PTHREAD_PRIO_INHERIT); }

static pthread_mutex_t many[200];

static void *lock_many_and_die(void *unused) {
  (void)unused;
  for (int i = 0; i < COUNT(many); i++) must(pthread_mutex_lock(&many[i]) == 0);
  return NULL;
}

/* More than the kernel handles in one go. */
CASE(robust_owner_dies_with_200) {
  int dead = 0;
  for (int i = 0; i < COUNT(many); i++)
    init_mutex(&many[i], PTHREAD_MUTEX_NORMAL, i % 2 ? PTHREAD_PRIO_INHERIT : PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST);
  finish(start(lock_many_and_die, NULL));
  for (int i = 0; i < COUNT(many); i++) dead += pthread_mutex_lock(&many[i]) == EOWNERDEAD;
  say("dead owners %d", dead);
}

/* A mutex shared between processes, whose owner dies with its process. */
CASE(robust_owner_process_dies) {
  pthread_mutex_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_mutexattr_t attr;
  pthread_mutexattr_init(&attr);
  pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
  need(pthread_mutex_init(shared, &attr) == 0);
  pid_t child = fork();
  if (child == 0) {
    pthread_mutex_lock(shared);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  say("lock %s", errname(pthread_mutex_lock(shared)));
  say("consistent %s", errname(pthread_mutex_consistent(shared)));
  say("unlock %s", errname(pthread_mutex_unlock(shared)));
}

CASE(ceiling) {
  pthread_mutexattr_t attr;
  int ceiling = -1;
  pthread_mutexattr_init(&attr);
  say("protocol %s", errname(pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_PROTECT)));
  say("ceiling 0: %s", errname(pthread_mutexattr_setprioceiling(&attr, 0)));
  say("ceiling 50: %s", errname(pthread_mutexattr_setprioceiling(&attr, 50)));
  need(pthread_mutex_init(&mutex, &attr) == 0);
  say("get %s", errname(pthread_mutex_getprioceiling(&mutex, &ceiling)));
  say("ceiling %d", ceiling);
}
