/* Read-write locks, barriers, semaphores, spin locks, once. */
#include "../check.h"
#include <fcntl.h>
#include <semaphore.h>

static pthread_rwlock_t rwlock;
static long guarded[2];
static atomic_int readers_inside, most_readers;

static void *read_often(void *unused) {
  (void)unused;
  for (int i = 0; i < 3000; i++) {
    must(pthread_rwlock_rdlock(&rwlock) == 0);
    int inside = ++readers_inside, most = most_readers;
    if (inside > most) most_readers = inside;
    if (i % 64 == 0) sched_yield();
    must(guarded[0] == guarded[1]);
    readers_inside--;
    must(pthread_rwlock_unlock(&rwlock) == 0);
  }
  return NULL;
}

static void *write_often(void *unused) {
  (void)unused;
  for (int i = 0; i < 3000; i++) {
    must(pthread_rwlock_wrlock(&rwlock) == 0);
    must(readers_inside == 0);
    guarded[0]++;
    if (i % 64 == 0) sched_yield();
    guarded[1]++;
    must(pthread_rwlock_unlock(&rwlock) == 0);
  }
  return NULL;
}

static void rw_contend(int kind) {
  pthread_rwlockattr_t attr;
  pthread_t threads[8];
  pthread_rwlockattr_init(&attr);
  need(pthread_rwlockattr_setkind_np(&attr, kind) == 0);
  need(pthread_rwlock_init(&rwlock, &attr) == 0);
  guarded[0] = guarded[1] = 0;
  for (int i = 0; i < 8; i++) threads[i] = start(i % 2 ? read_often : write_often, NULL);
  for (int i = 0; i < 8; i++) finish(threads[i]);
  say("writes %ld", guarded[0]);
}

CASE(rwlock_prefers_readers) { rw_contend(PTHREAD_RWLOCK_PREFER_READER_NP); }
CASE(rwlock_prefers_writers) { rw_contend(PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP); }

static void *try_rwlock(void *unused) {
  (void)unused;
  struct timespec soon = timespec_of(now_ns(CLOCK_REALTIME) + 10000000);
  say("try read %s", errname(pthread_rwlock_tryrdlock(&rwlock)));
  say("try write %s", errname(pthread_rwlock_trywrlock(&rwlock)));
  int answer = pthread_rwlock_timedrdlock(&rwlock, &soon);
  say("timed read %s", errname(answer));
  say("timed write %s", errname(pthread_rwlock_timedwrlock(&rwlock, &soon)));
  soon = timespec_of(now_ns(CLOCK_MONOTONIC) + 10000000);
  say("clock write %s", errname(pthread_rwlock_clockwrlock(&rwlock, CLOCK_MONOTONIC, &soon)));
  return NULL;
}

CASE(rwlock_semantics) {
  pthread_rwlock_init(&rwlock, NULL);
  pthread_rwlock_wrlock(&rwlock);
  say("owner reads %s", errname(pthread_rwlock_rdlock(&rwlock)));
  say("owner writes %s", errname(pthread_rwlock_wrlock(&rwlock)));
  finish(start(try_rwlock, NULL));
  pthread_rwlock_unlock(&rwlock);
  pthread_rwlock_rdlock(&rwlock);
  finish(start(try_rwlock, NULL));
}

static pthread_barrier_t barrier;
static atomic_int serial, phase_errors;
static int phases[12];

static void *pass_barrier(void *index) {
  for (int i = 1; i <= 300; i++) {
    phases[(intptr_t)index] = i;
    int answer = pthread_barrier_wait(&barrier);
    serial += answer == PTHREAD_BARRIER_SERIAL_THREAD;
    for (int j = 0; j < COUNT(phases); j++) phase_errors += phases[j] != i;
    pthread_barrier_wait(&barrier);
  }
  return NULL;
}

CASE(barrier_phases) {
  pthread_t threads[COUNT(phases)];
  need(pthread_barrier_init(&barrier, NULL, COUNT(phases)) == 0);
  for (intptr_t i = 0; i < COUNT(phases); i++) threads[i] = start(pass_barrier, (void *)i);
  for (int i = 0; i < COUNT(phases); i++) finish(threads[i]);
  say("serial %d, errors %d", serial, phase_errors);
  say("destroy %s", errname(pthread_barrier_destroy(&barrier)));
  say("for nobody %s", errname(pthread_barrier_init(&barrier, NULL, 0)));
}

static sem_t full, empty;
static int ring[4];
static long ring_sum;

static void *put(void *base) {
  for (int i = 0; i < 3000; i++) {
    while (sem_wait(&empty) == -1) {}
    ring[i % 4] = (int)(intptr_t)base + i;
    sem_post(&full);
  }
  return NULL;
}

static void *get(void *unused) {
  (void)unused;
  for (int i = 0; i < 3000; i++) {
    while (sem_wait(&full) == -1) {}
    ring_sum += ring[i % 4];
    sem_post(&empty);
  }
  return NULL;
}

CASE(semaphore_ring) {
  sem_init(&full, 0, 0);
  sem_init(&empty, 0, 4);
  pthread_t a = start(put, (void *)5), b = start(get, NULL);
  finish(a);
  finish(b);
  int value;
  sem_getvalue(&empty, &value);
  say("sum %ld, value %d", ring_sum, value);
}

CASE(semaphore_times) {
  sem_t sem;
  struct timespec bad = {0, -1};
  sem_init(&sem, 0, 1);
  say("trywait %s", result(sem_trywait(&sem)));
  say("trywait %s", result(sem_trywait(&sem)));
  for (int ms = -10; ms <= 20; ms += 10) {
    struct timespec until = timespec_of(now_ns(CLOCK_REALTIME) + ms * INT64_C(1000000));
    say("timedwait %d ms %s", ms, result(sem_timedwait(&sem, &until)));
    until = timespec_of(now_ns(CLOCK_MONOTONIC) + ms * INT64_C(1000000));
    say("clockwait %d ms %s", ms, result(sem_clockwait(&sem, CLOCK_MONOTONIC, &until)));
    must(now_ns(CLOCK_MONOTONIC) >= until.tv_sec * INT64_C(1000000000) + until.tv_nsec);
  }
  say("bad time %s", result(sem_timedwait(&sem, &bad)));
  for (unsigned i = 0; i < 2; i++) must(sem_post(&sem) == 0);
  say("bad time, but free %s", result(sem_timedwait(&sem, &bad)));
  sem_init(&sem, 0, SEM_VALUE_MAX);
  say("overflow %s", result(sem_post(&sem)));
  say("too large %s", result(sem_init(&sem, 0, SEM_VALUE_MAX + 1u)));
}

CASE(named_semaphore_between_processes) {
  char name[64];
  snprintf(name, sizeof name, "/entresol-check-%d", (int)getpid());
  sem_t *sem = sem_open(name, O_CREAT | O_EXCL, 0600, 0);
  need(sem != SEM_FAILED);
  sem_unlink(name);
  pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 100; i++) sem_post(sem);
    _exit(0);
  }
  for (int i = 0; i < 100; i++)
    while (sem_wait(sem) == -1) {}
  int status;
  waitpid(child, &status, 0);
  say("child %s", ended(status));
}

static pthread_spinlock_t spinlock;
static long spun;

static void *spin_often(void *unused) {
  (void)unused;
  for (int i = 0; i < 20000; i++) {
    pthread_spin_lock(&spinlock);
    spun++;
    pthread_spin_unlock(&spinlock);
  }
  return NULL;
}

/* A spinner whose owner lost its CPU goes on only because it loses its own. */
CASE(spin_locks) {
  pthread_t threads[6];
  pthread_spin_init(&spinlock, 0);
  for (int i = 0; i < 6; i++) threads[i] = start(spin_often, NULL);
  for (int i = 0; i < 6; i++) finish(threads[i]);
  pthread_spin_lock(&spinlock);
  say("count %ld, trylock %s", spun, errname(pthread_spin_trylock(&spinlock)));
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_int once_runs, once_done;

static void slow_init(void) {
  once_runs++;
  settle();
  once_done = 1;
}

static void *init_once(void *unused) {
  (void)unused;
  pthread_once(&once, slow_init);
  must(once_done);
  return NULL;
}

CASE(once_for_all) {
  pthread_t threads[10];
  for (int i = 0; i < 10; i++) threads[i] = start(init_once, NULL);
  for (int i = 0; i < 10; i++) finish(threads[i]);
  say("runs %d", once_runs);
}
