/* Words shared by processes, and one word at two addresses. */
#include "futex.h"
#include <fcntl.h>

static _Atomic uint32_t *shared_words(int count) {
  void *place = mmap(NULL, count * sizeof(uint32_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  need(place != MAP_FAILED);
  return place;
}

static void end_child(pid_t child) {
  int status;
  need(waitpid(child, &status, 0) == child);
  say("child %s", ended(status));
}

CASE(child_is_woken) {
  _Atomic uint32_t *words = shared_words(2);
  pid_t child = fork();
  if (child == 0) _exit(futex(&words[0], FUTEX_WAIT, 0, NULL, NULL, 0) == 0 ? 7 : 8);
  wait_until(waiters(&words[0], 0) == 1);
  say("private wake %s", result(futex_wake(&words[0], 5)));
  say("wake of the neighbour %s", result(futex(&words[1], FUTEX_WAKE, 5, NULL, NULL, 0)));
  say("wake %s", result(futex(&words[0], FUTEX_WAKE, 5, NULL, NULL, 0)));
  end_child(child);
}

CASE(parent_is_woken) {
  _Atomic uint32_t *words = shared_words(1);
  pid_t child = fork();
  if (child == 0) {
    wait_until(waiters(&words[0], 0) == 1);
    words[0] = 1;
    _exit((int)futex(&words[0], FUTEX_WAKE, 5, NULL, NULL, 0));
  }
  say("wait %s", result(futex(&words[0], FUTEX_WAIT, 0, NULL, NULL, 0)));
  end_child(child);
}

CASE(ping_pong) {
  _Atomic uint32_t *words = shared_words(1);
  pid_t child = fork();
  uint32_t mine = child == 0;
  for (int i = 0; i < 3000; i++) {
    while (words[0] % 2 != mine) futex(&words[0], FUTEX_WAIT, !mine, NULL, NULL, 0);
    words[0] = !mine;
    futex(&words[0], FUTEX_WAKE, 1, NULL, NULL, 0);
  }
  if (child == 0) _exit(0);
  end_child(child);
  say("word %u", words[0]);
}

struct ring {
  _Atomic uint32_t *words;
  int index;
};

static void *ring_step(void *argument) {
  struct ring *ring = argument;
  for (int i = 0; i < 500; i++) {
    uint32_t seen;
    while ((seen = ring->words[0]) % 8 != (uint32_t)ring->index) futex(ring->words, FUTEX_WAIT, seen, NULL, NULL, 0);
    ring->words[0] = seen + 1;
    futex(ring->words, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
  }
  return NULL;
}

/* Four threads in each of two processes take turns on one word. */
CASE(threads_of_two_processes) {
  _Atomic uint32_t *words = shared_words(1);
  pid_t child = fork();
  pthread_t threads[4];
  struct ring rings[4];
  for (int i = 0; i < 4; i++) {
    rings[i] = (struct ring){words, i * 2 + (child == 0)};
    threads[i] = start(ring_step, &rings[i]);
  }
  for (int i = 0; i < 4; i++) finish(threads[i]);
  if (child == 0) _exit(0);
  end_child(child);
  say("word %u", words[0]);
}

CASE(two_addresses) {
  int fd = memfd_create("word", 0);
  need(fd >= 0 && ftruncate(fd, 4096) == 0);
  _Atomic uint32_t *a = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  _Atomic uint32_t *b = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  need(a != MAP_FAILED && b != MAP_FAILED && a != b);
  struct waiter waiter;
  add_waiter(&waiter, 0, a, FUTEX_WAIT, 0);
  say("private wake at the other address %s", result(futex_wake(b, 1)));
  say("wake at the other address %s", result(futex(b, FUTEX_WAKE, 1, NULL, NULL, 0)));
  finish(waiter.thread);
  say_returns("returned");
}

/* A private word is keyed by its address, also in a shared mapping. */
CASE(private_in_shared_memory) {
  _Atomic uint32_t *words = shared_words(1);
  struct waiter waiter;
  add_waiter(&waiter, 0, words, FUTEX_WAIT | PRIVATE, 0);
  say("shared wake %s", result(futex(words, FUTEX_WAKE, 1, NULL, NULL, 0)));
  say("private wake %s", result(futex_wake(words, 1)));
  finish(waiter.thread);
  returned = 0;
}

CASE(requeue_between_processes) {
  _Atomic uint32_t *words = shared_words(2);
  pid_t child = fork();
  if (child == 0) _exit(futex(&words[0], FUTEX_WAIT, 0, NULL, NULL, 0) == 0 ? 7 : 8);
  wait_until(waiters(&words[0], 0) == 1);
  say("requeue %s", result(futex(&words[0], FUTEX_CMP_REQUEUE, 0, (void *)1, &words[1], 0)));
  say("wake, old place %s", result(futex(&words[0], FUTEX_WAKE, 1, NULL, NULL, 0)));
  say("wake, new place %s", result(futex(&words[1], FUTEX_WAKE, 1, NULL, NULL, 0)));
  end_child(child);
}

CASE(wake_op_between_processes) {
  _Atomic uint32_t *words = shared_words(2);
  pid_t child = fork();
  if (child == 0) _exit(futex(&words[1], FUTEX_WAIT, 0, NULL, NULL, 0) == 0 ? 7 : 8);
  wait_until(waiters(&words[1], 0) == 1);
  say("wake_op %s", result(futex(&words[0], FUTEX_WAKE_OP, 1, (void *)1, &words[1], FUTEX_OP(FUTEX_OP_ADD, 1, FUTEX_OP_CMP_EQ, 0))));
  end_child(child);
  say("word %u", words[1]);
}

CASE(timeouts) {
  _Atomic uint32_t *words = shared_words(1);
  for (int ms = 0; ms <= 20; ms += 10) {
    struct timespec timeout = timespec_of(ms * INT64_C(1000000));
    int64_t before = now_ns(CLOCK_MONOTONIC);
    say("%d ms: %s", ms, result(futex(words, FUTEX_WAIT, 0, &timeout, NULL, 0)));
    must(now_ns(CLOCK_MONOTONIC) - before >= ms * INT64_C(1000000));
  }
}

static void on_signal(int signal) { (void)signal; }

CASE(interrupted) {
  _Atomic uint32_t *words = shared_words(1);
  struct sigaction action = {.sa_handler = on_signal};
  struct waiter waiter;
  sigaction(SIGUSR1, &action, NULL);
  add_waiter(&waiter, 0, words, FUTEX_WAIT, 0);
  pthread_kill(waiter.thread, SIGUSR1);
  finish(waiter.thread);
  say_returns("returned");
}

static void count_with(pthread_mutex_t *mutex, int *count) {
  for (int i = 0; i < 3000; i++) {
    must(pthread_mutex_lock(mutex) == 0);
    int old = *count;
    if (i % 32 == 0) sched_yield();
    *count = old + 1;
    must(pthread_mutex_unlock(mutex) == 0);
  }
}

static void shared_mutex(int type, int protocol) {
  struct {
    pthread_mutex_t mutex;
    int count;
  } *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_mutexattr_t attr;
  pthread_mutexattr_init(&attr);
  pthread_mutexattr_settype(&attr, type);
  pthread_mutexattr_setprotocol(&attr, protocol);
  need(pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED) == 0);
  need(pthread_mutex_init(&shared->mutex, &attr) == 0);
  pid_t child = fork();
  count_with(&shared->mutex, &shared->count);
  if (child == 0) _exit(check_failed);
  end_child(child);
  say("count %d", shared->count);
}

CASE(mutex) { shared_mutex(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE); }
CASE(recursive_mutex) { shared_mutex(PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE); }
CASE(inheriting_mutex) { shared_mutex(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT); }

CASE(barrier_and_condition) {
  struct {
    pthread_barrier_t barrier;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int turn;
  } *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_barrierattr_t barrier_attr;
  pthread_mutexattr_t mutex_attr;
  pthread_condattr_t cond_attr;
  pthread_barrierattr_init(&barrier_attr);
  pthread_barrierattr_setpshared(&barrier_attr, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&shared->barrier, &barrier_attr, 2);
  pthread_mutexattr_init(&mutex_attr);
  pthread_mutexattr_setpshared(&mutex_attr, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(&shared->mutex, &mutex_attr);
  pthread_condattr_init(&cond_attr);
  pthread_condattr_setpshared(&cond_attr, PTHREAD_PROCESS_SHARED);
  pthread_cond_init(&shared->cond, &cond_attr);
  pid_t child = fork();
  int mine = child == 0;
  for (int i = 0; i < 500; i++) {
    pthread_barrier_wait(&shared->barrier);
    pthread_mutex_lock(&shared->mutex);
    while (shared->turn % 2 != mine) pthread_cond_wait(&shared->cond, &shared->mutex);
    shared->turn++;
    pthread_cond_signal(&shared->cond);
    pthread_mutex_unlock(&shared->mutex);
  }
  if (child == 0) _exit(0);
  end_child(child);
  say("turns %d", shared->turn);
}

/* Whoever sees a thread asleep in its wait can wake it. */
static _Atomic uint32_t *asleep_at;
static atomic_int sleeper, rounds;
static void *sleeps_on(void *unused) {
  sleeper = gettid();
  for (int i = 0; i < 300; i++) {
    rounds = i + 1;
    if (futex(asleep_at, FUTEX_WAIT_BITSET, 0, NULL, NULL, 4) != 0) say("wait %s", errname(errno));
    while (rounds > 0) sched_yield();
  }
  return unused;
}
CASE(asleep_is_waiting) {
  asleep_at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  need(asleep_at != MAP_FAILED);
  pthread_t thread = start(sleeps_on, NULL);
  int woken = 0;
  for (int i = 0; i < 300; i++) {
    wait_until(rounds == i + 1 && state_of(sleeper) == 'S');
    woken += futex(asleep_at, FUTEX_WAKE_BITSET, 1, NULL, NULL, 4) == 1;
    if (woken <= i) wait_until(futex(asleep_at, FUTEX_WAKE_BITSET, 1, NULL, NULL, 4) == 1);
    rounds = -1 - i;
  }
  say("woken %d", woken);
  finish(thread);
}
