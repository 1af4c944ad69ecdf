/* The second generation: futex_waitv, futex_wake, futex_wait, futex_requeue. */
#include "futex.h"

#define U32 FUTEX_32
#define MASK_ANY 0xffffffffUL

static _Atomic uint32_t words[FUTEX_WAITV_MAX + 1];

static struct futex_waitv on(_Atomic uint32_t *word, uint64_t value, uint32_t flags) {
  return (struct futex_waitv){.val = value, .uaddr = (uintptr_t)word, .flags = flags};
}

static long waitv(struct futex_waitv *list, unsigned count, unsigned flags, const struct timespec *until,
                  clockid_t clock) {
  return syscall(SYS_futex_waitv, list, count, flags, until, clock);
}

static long wake2(void *word, unsigned long mask, int count, unsigned flags) {
  return syscall(SYS_FUTEX_WAKE, word, mask, count, flags);
}

static long wait2(void *word, unsigned long value, unsigned long mask, unsigned flags, const struct timespec *until,
                  clockid_t clock) {
  return syscall(SYS_FUTEX_WAIT, word, value, mask, flags, until, clock);
}

static long requeue2(struct futex_waitv *pair, unsigned flags, int wake, int move) {
  return syscall(SYS_FUTEX_REQUEUE, pair, flags, wake, move);
}

CASE(waitv_refused) {
  struct futex_waitv one = on(&words[0], 0, U32 | FUTEX_PRIVATE_FLAG);
  struct timespec over = {0, 0}, bad = {0, -1};
  say("none %s", result(waitv(&one, 0, 0, &over, CLOCK_MONOTONIC)));
  say("too many %s", result(waitv(&one, FUTEX_WAITV_MAX + 1, 0, &over, CLOCK_MONOTONIC)));
  say("flags %s", result(waitv(&one, 1, 1, &over, CLOCK_MONOTONIC)));
  say("no list %s", result(waitv(NULL, 1, 0, &over, CLOCK_MONOTONIC)));
  say("bad list %s", result(waitv((void *)8, 1, 0, &over, CLOCK_MONOTONIC)));
  say("bad clock %s", result(waitv(&one, 1, 0, &over, CLOCK_PROCESS_CPUTIME_ID)));
  say("boot clock %s", result(waitv(&one, 1, 0, &over, CLOCK_BOOTTIME)));
  say("bad clock, no timeout, mismatch %s", result(waitv(&(struct futex_waitv){.val = 1, .uaddr = one.uaddr, .flags = one.flags}, 1, 0, NULL, 77)));
  say("bad time %s", result(waitv(&one, 1, 0, &bad, CLOCK_MONOTONIC)));
  say("time at a bad place %s", result(waitv(&one, 1, 0, (void *)8, CLOCK_MONOTONIC)));
  one.__reserved = 1;
  say("reserved %s", result(waitv(&one, 1, 0, &over, CLOCK_MONOTONIC)));
}

/* Bits 2 and 3 ask for NUMA words, which kernels know since 6.16 only. */
enum { NUMA_BITS = 0xc };

/* Every value of the flags' low byte, and as many above it; those that are not refused are named. */
CASE(waitv_flags) {
  struct timespec over = {0, 0};
  for (unsigned flags = 0; flags < 512; flags++) {
    if (flags & NUMA_BITS) continue;
    struct futex_waitv one = on(&words[0], 0, flags);
    long answer = waitv(&one, 1, 0, &over, CLOCK_MONOTONIC);
    if (answer != -1 || errno != EINVAL) say("%#x: %s", flags, result(answer));
  }
}

CASE(waitv_values) {
  struct timespec over = {0, 0};
  struct futex_waitv list[3];
  for (int i = 0; i < 3; i++) list[i] = on(&words[i], 0, U32 | PRIVATE);
  say("all match %s", result(waitv(list, 3, 0, &over, CLOCK_MONOTONIC)));
  list[2].val = 1;
  say("last differs %s", result(waitv(list, 3, 0, &over, CLOCK_MONOTONIC)));
  list[2].val = 1ULL << 32;
  say("value of more than 32 bits %s", result(waitv(list, 3, 0, &over, CLOCK_MONOTONIC)));
  list[2] = on((void *)8, 0, U32 | PRIVATE);
  say("bad address %s", result(waitv(list, 3, 0, &over, CLOCK_MONOTONIC)));
  list[2] = on((void *)((char *)&words[2] + 1), 0, U32 | PRIVATE);
  say("unaligned %s", result(waitv(list, 3, 0, &over, CLOCK_MONOTONIC)));
}

CASE(waitv_timeouts) {
  static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME};
  for (int i = 0; i < 2; i++) {
    for (int ms = -10; ms <= 20; ms += 10) {
      struct futex_waitv list[2] = {on(&words[0], 0, U32 | PRIVATE), on(&words[1], 0, U32 | PRIVATE)};
      struct timespec until = timespec_of(now_ns(clocks[i]) + ms * INT64_C(1000000));
      say("clock %d, %d ms: %s", clocks[i], ms, result(waitv(list, 2, 0, &until, clocks[i])));
      must(now_ns(clocks[i]) >= until.tv_sec * INT64_C(1000000000) + until.tv_nsec);
    }
  }
}

static void *wait_for_all(void *count_pointer) {
  int count = (int)(intptr_t)count_pointer;
  struct futex_waitv list[FUTEX_WAITV_MAX];
  for (int i = 0; i < count; i++) list[i] = on(&words[i], words[i], U32 | PRIVATE);
  note_return(count, waitv(list, count, 0, NULL, CLOCK_MONOTONIC));
  return NULL;
}

static void wake_index(int count, int index, int how) {
  pthread_t thread = start(wait_for_all, (void *)(intptr_t)count);
  wait_until(waiters(&words[count - 1], PRIVATE) == 1);
  long woken = how == 0   ? futex_wake(&words[index], 1)
               : how == 1 ? wake2(&words[index], MASK_ANY, 1, U32 | PRIVATE)
                          : futex(&words[index], FUTEX_WAKE_BITSET | PRIVATE, 1, NULL, NULL, 8);
  say("%d words, wake word %d: %s", count, index, result(woken));
  finish(thread);
  say_returns("returned (index)");
  for (int i = 0; i < count; i++) must(waiters(&words[i], PRIVATE) == 0);
}

CASE(waitv_woken) {
  for (int how = 0; how < 3; how++) {
    wake_index(1, 0, how);
    wake_index(2, 1, how);
    wake_index(5, 3, how);
    wake_index(FUTEX_WAITV_MAX, FUTEX_WAITV_MAX - 1, how);
    wake_index(FUTEX_WAITV_MAX, 64, how);
  }
}

CASE(waitv_same_word_twice) {
  struct futex_waitv list[2] = {on(&words[0], 0, U32 | PRIVATE), on(&words[0], 0, U32 | PRIVATE)};
  struct timespec over = {0, 0};
  say("%s", result(waitv(list, 2, 0, &over, CLOCK_MONOTONIC)));
}

static void on_signal(int signal) { (void)signal; }

CASE(waitv_interrupted) {
  struct sigaction action = {.sa_handler = on_signal};
  sigaction(SIGUSR1, &action, NULL);
  pthread_t thread = start(wait_for_all, (void *)3);
  wait_until(waiters(&words[2], PRIVATE) == 1);
  pthread_kill(thread, SIGUSR1);
  finish(thread);
  say_returns("returned");
}

CASE(waitv_moved_by_requeue) {
  static _Atomic uint32_t to;
  pthread_t thread = start(wait_for_all, (void *)3);
  wait_until(waiters(&words[2], PRIVATE) == 1);
  say("requeue %s", result(futex(&words[1], FUTEX_REQUEUE | PRIVATE, 0, (void *)1, &to, 0)));
  say("old place %s", result(futex_wake(&words[1], 1)));
  say("new place %s", result(futex_wake(&to, 1)));
  finish(thread);
  say_returns("returned");
}

/* Threads that wait for two words each, woken through either. */
static atomic_int tokens;

static void *take_tokens(void *unused) {
  (void)unused;
  for (;;) {
    uint32_t seen[2] = {words[0], words[1]};
    int have = tokens;
    if (have < 0) return NULL;
    if (have > 0 && atomic_compare_exchange_strong(&tokens, &have, have - 1)) continue;
    if (have > 0) continue;
    struct futex_waitv list[2] = {on(&words[0], seen[0], U32 | PRIVATE), on(&words[1], seen[1], U32 | PRIVATE)};
    waitv(list, 2, 0, NULL, CLOCK_MONOTONIC);
  }
}

CASE(waitv_churn) {
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) threads[i] = start(take_tokens, NULL);
  for (int i = 0; i < 4000; i++) {
    atomic_fetch_add(&tokens, 1);
    atomic_fetch_add(&words[i % 2], 1);
    futex_wake(&words[i % 2], 1);
  }
  wait_until(tokens == 0);
  tokens = -1;
  for (int i = 0; i < 2; i++) {
    atomic_fetch_add(&words[i], 1);
    futex_wake(&words[i], INT_MAX);
  }
  for (int i = 0; i < 4; i++) finish(threads[i]);
  say("done");
  words[0] = words[1] = 0;
}

CASE(wait2_refused) {
  struct timespec over = {0, 0}, bad = {-1, 0};
  unsigned good = U32 | PRIVATE;
  say("mismatch %s", result(wait2(&words[0], 1, MASK_ANY, good, NULL, CLOCK_MONOTONIC)));
  say("no mask %s", result(wait2(&words[0], 0, 0, good, &over, CLOCK_MONOTONIC)));
  say("wide mask %s", result(wait2(&words[0], 0, 1UL << 32, good, &over, CLOCK_MONOTONIC)));
  say("wide value %s", result(wait2(&words[0], 1UL << 32, MASK_ANY, good, &over, CLOCK_MONOTONIC)));
  say("bad clock %s", result(wait2(&words[0], 0, MASK_ANY, good, &over, CLOCK_BOOTTIME)));
  say("bad time %s", result(wait2(&words[0], 0, MASK_ANY, good, &bad, CLOCK_MONOTONIC)));
  say("bad address %s", result(wait2((void *)8, 0, MASK_ANY, good, &over, CLOCK_MONOTONIC)));
  say("unaligned %s", result(wait2((char *)&words[0] + 2, 0, MASK_ANY, good, &over, CLOCK_MONOTONIC)));
}

CASE(wait2_and_wake2_flags) {
  struct timespec over = {0, 0};
  for (unsigned flags = 0; flags < 512; flags++) {
    if (flags & NUMA_BITS) continue;
    long waited = wait2(&words[0], 0, MASK_ANY, flags, &over, CLOCK_MONOTONIC);
    if (waited != -1 || errno != EINVAL) say("%#x: wait %s", flags, result(waited));
    long woken = wake2(&words[0], MASK_ANY, 1, flags);
    if (woken != -1 || errno != EINVAL) say("%#x: wake %s", flags, result(woken));
  }
}

CASE(wait2_timeouts) {
  static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME};
  for (int i = 0; i < 2; i++) {
    for (int ms = -10; ms <= 20; ms += 10) {
      struct timespec until = timespec_of(now_ns(clocks[i]) + ms * INT64_C(1000000));
      say("clock %d, %d ms: %s", clocks[i], ms,
          result(wait2(&words[0], 0, MASK_ANY, U32 | PRIVATE, &until, clocks[i])));
      must(now_ns(clocks[i]) >= until.tv_sec * INT64_C(1000000000) + until.tv_nsec);
    }
  }
}

static void *wait2_and_note(void *mask) {
  long value = wait2(&words[0], words[0], (uintptr_t)mask, U32 | PRIVATE, NULL, CLOCK_MONOTONIC);
  note_return((int)(intptr_t)mask, value);
  return NULL;
}

static void start_masked(pthread_t *threads, int count) {
  for (int i = 0; i < count; i++) {
    threads[i] = start(wait2_and_note, (void *)(1UL << i));
    wait_until(waiters(&words[0], PRIVATE) == i + 1);
  }
}

CASE(wake2_masks_and_counts) {
  pthread_t threads[4];
  start_masked(threads, 4);
  say("count 0: %s", result(wake2(&words[0], MASK_ANY, 0, U32 | PRIVATE)));
  say("count -1: %s", result(wake2(&words[0], 0x10, -1, U32 | PRIVATE)));
  say("no mask %s", result(wake2(&words[0], 0, 1, U32 | PRIVATE)));
  say("wide mask %s", result(wake2(&words[0], 1UL << 32, 1, U32 | PRIVATE)));
  say("mask 4: %s", result(wake2(&words[0], 4, INT_MAX, U32 | PRIVATE)));
  finish(threads[2]);
  say_returns("returned");
  say("mask 3, one: %s", result(wake2(&words[0], 3, 1, U32 | PRIVATE)));
  finish(threads[0]);
  say_returns("returned");
  say("plain wake: %s", result(futex_wake(&words[0], INT_MAX)));
  finish(threads[1]);
  finish(threads[3]);
  returned = 0;
}

CASE(requeue2) {
  pthread_t threads[4];
  struct futex_waitv pair[2] = {on(&words[0], 0, U32 | PRIVATE), on(&words[1], 0, U32 | PRIVATE)};
  start_masked(threads, 4);
  say("flags %s", result(requeue2(pair, 1, 1, 1)));
  say("no pair %s", result(requeue2(NULL, 0, 1, 1)));
  say("bad pair %s", result(requeue2((void *)8, 0, 1, 1)));
  say("negative %s", result(requeue2(pair, 0, -1, 1)));
  say("negative %s", result(requeue2(pair, 0, 1, -1)));
  pair[0].val = 1;
  say("mismatch %s", result(requeue2(pair, 0, 1, 1)));
  pair[0].val = 0;
  pair[1].val = 5;
  say("wake 1, move 2: %s", result(requeue2(pair, 0, 1, 2)));
  finish(threads[0]);
  say_returns("returned");
  say("stay %s", result(waiters(&words[0], PRIVATE)));
  say("moved %s", result(waiters(&words[1], PRIVATE)));
  pair[1].flags = U32;
  say("to a shared word: %s", result(requeue2(pair, 0, 0, 1)));
  futex_wake(&words[0], 5);
  say("wake %s", result(futex_wake(&words[1], 5)));
  for (int i = 1; i < 4; i++) finish(threads[i]);
  returned = 0;
  pair[0].flags = 0;
  say("size 8: %s", result(requeue2(pair, 0, 1, 1)));
}
