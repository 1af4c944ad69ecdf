/* Threads: their birth and death, their sleep, their priorities, who they are. */
#ifndef LIVES_H
#define LIVES_H

#include "locks.h"
#include "memory.h"
#include "registers.h"

static atomic_long children;

/* The low bits of a child's seed: its parent's rounding mode, and whether it detaches itself. The parent must not detach it:
 * glibc 2.36 reads the descriptor of a thread after detaching it, and the stack it lies on may be unmapped by then. */
enum { ROUNDING = 3, DETACHES = 4, SEED_BITS = 7 };

/* A short life with an identity and a random state of its own. */
static void *child(void *seed) {
  struct worker self = {.index = 1000, .tid = gettid(), .random = (uint64_t)(uintptr_t)seed | 8, .activity = "child"};
  me = &self;
  fill_tls();
  if ((uintptr_t)seed & DETACHES) check(pthread_detach(pthread_self()) == 0, "detach failed");
  rounding = (int)((uintptr_t)seed & ROUNDING);
  round_numbers();
  hold_over_computation();
  if (dice(2)) sched_yield();
  look_at_tls();
  hold_over_call();
  check(gettid() == self.tid, "tid %d became %d", self.tid, gettid());
  if (dice(2)) die_with_robust();
  me = NULL;
  atomic_fetch_sub(&children, 1);
  return (void *)(uintptr_t)self.checks;
}

static void have_children(void) {
  pthread_t threads[6];
  bool joined[6];
  int count = 1 + (int)dice(6), born = 0;
  if (atomic_load(&children) > 200) return;
  for (; born < count; born++) {
    joined[born] = dice(3) != 0;
    uint64_t seed = (next_random(&me->random) & ~(uint64_t)SEED_BITS) | (uint64_t)rounding | (joined[born] ? 0 : DETACHES);
    atomic_fetch_add(&children, 1);
    int error = pthread_create(&threads[born], NULL, child, (void *)(uintptr_t)seed);
    if (error == 0) continue;
    atomic_fetch_sub(&children, 1);
    check(error == EAGAIN, "pthread_create answered %d", error);
    break;
  }
  for (int i = 0; i < born; i++) {
    void *value;
    if (!joined[i]) continue;
    check(pthread_join(threads[i], &value) == 0, "join failed");
    check(value != NULL, "a child checked nothing");
    me->checks += (uintptr_t)value;
  }
}

static void sleep_a_little(void) {
  long span = (long)dice(300000);
  struct timespec time = {0, span};
  int64_t before = monotonic_ns();
  int answer;
  while ((answer = nanosleep(&time, &time)) != 0 && errno == EINTR)
    /* What is left has the slack in it, natively. */
    check(time.tv_sec == 0 && time.tv_nsec <= span + 1000000, "%ld s %ld ns are left of %ld ns", (long)time.tv_sec,
          time.tv_nsec, span);
  check(answer == 0, "nanosleep answered %d", errno);
  int64_t slept = monotonic_ns() - before;
  check(slept >= span, "slept %lld ns of %ld", (long long)slept, span);
}

static void yield(void) {
  for (uint64_t i = dice(200); i > 0; i--) check(sched_yield() == 0, "yield failed");
}

static void know_myself(void) {
  check(gettid() == me->tid, "tid %d became %d", me->tid, gettid());
  check(syscall(SYS_gettid) == me->tid, "the tid of the system call is another");
  check(pthread_equal(pthread_self(), me->thread), "pthread_self is another");
}

/* Refused natively to an ordinary user, which is fine. A waiter for time or a lock never spins here, so that a
 * real-time thread cannot keep the one it waits for from running. */
static void change_priority(void) {
  static const int policies[] = {SCHED_OTHER, SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, SCHED_FIFO, SCHED_RR};
  int policy = policies[dice(6)], got;
  struct sched_param wanted = {.sched_priority = policy == SCHED_FIFO || policy == SCHED_RR ? 1 + (int)dice(50) : 0};
  int answer = pthread_setschedparam(pthread_self(), policy, &wanted);
  check(answer == 0 || answer == EPERM, "setschedparam answered %d", answer);
  if (answer != 0) return;
  struct sched_param param;
  check(syscall(SYS_sched_getscheduler, 0) == policy, "the policy is another");
  check(pthread_getschedparam(pthread_self(), &got, &param) == 0 && got == policy, "libc's policy is another");
  check(syscall(SYS_sched_getparam, 0, &param) == 0 && param.sched_priority == wanted.sched_priority,
        "priority %d became %d", wanted.sched_priority, param.sched_priority);
}

#endif
