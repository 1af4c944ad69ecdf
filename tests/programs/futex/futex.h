/* The futex calls as the kernel has them: -1 and errno, nothing added. */
#ifndef FUTEX_H
#define FUTEX_H

#include "../check.h"
#include <linux/futex.h>

/* Headers before Linux 5.14 and 5.16 lack these. */
#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif
#ifndef FUTEX_32
#define FUTEX_32 2
#define FUTEX_WAITV_MAX 128
struct futex_waitv {
  uint64_t val, uaddr;
  uint32_t flags, __reserved;
};
#endif
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#define SYS_FUTEX_WAKE 454
#define SYS_FUTEX_WAIT 455
#define SYS_FUTEX_REQUEUE 456

#define PRIVATE FUTEX_PRIVATE_FLAG

__attribute__((unused)) static long futex(void *word, int op, uint32_t value, const struct timespec *timeout,
                                          void *word2, uint32_t value3) {
  return syscall(SYS_futex, word, op, value, timeout, word2, value3);
}

__attribute__((unused)) static long futex_wait(_Atomic uint32_t *word, uint32_t value) {
  return futex(word, FUTEX_WAIT | PRIVATE, value, NULL, NULL, 0);
}

__attribute__((unused)) static long futex_wake(_Atomic uint32_t *word, int count) {
  return futex(word, FUTEX_WAKE | PRIVATE, count, NULL, NULL, 0);
}

/* How many wait on a word: a requeue of everyone to the place where they are counts and moves nobody. `flag` is
 * PRIVATE or 0. */
__attribute__((unused)) static long waiters(_Atomic uint32_t *word, int flag) {
  return futex(word, FUTEX_CMP_REQUEUE | flag, 0, (void *)(intptr_t)INT_MAX, word, atomic_load(word));
}

/* In the order of their return, who came back from a wait and with what. */
enum { MAX_RETURNS = 256 };
static struct {
  int who;
  long value;
  int error;
} returns[MAX_RETURNS];
static atomic_int returned;

__attribute__((unused)) static void note_return(int who, long value) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  int error = errno;
  pthread_mutex_lock(&lock);
  int slot = returned;
  need(slot < MAX_RETURNS);
  returns[slot].who = who;
  returns[slot].value = value;
  returns[slot].error = value == -1 ? error : 0;
  atomic_store(&returned, slot + 1);
  pthread_mutex_unlock(&lock);
}

/* Says who has returned since the last time. */
__attribute__((unused)) static void say_returns(const char *what) {
  char text[512] = "";
  int used = 0;
  for (int i = 0; i < returned && used < (int)sizeof text - 40; i++) {
    used += snprintf(text + used, sizeof text - used, " %d", returns[i].who);
    if (returns[i].error) used += snprintf(text + used, sizeof text - used, "(%s)", errname(returns[i].error));
    else if (returns[i].value) used += snprintf(text + used, sizeof text - used, "(%ld)", returns[i].value);
  }
  say("%s:%s", what, used ? text : " nobody");
  returned = 0;
}

/* A thread that waits once. */
struct waiter {
  pthread_t thread;
  int who, op;
  _Atomic uint32_t *word;
  uint32_t value, bits;
};

__attribute__((unused)) static void *wait_once(void *argument) {
  struct waiter *waiter = argument;
  note_return(waiter->who, futex(waiter->word, waiter->op, waiter->value, NULL, NULL, waiter->bits));
  return NULL;
}

/* Starts waiter number `who`, and comes back when it waits: so waiters queue in the order of their start. */
__attribute__((unused)) static void add_waiter(struct waiter *waiter, int who, _Atomic uint32_t *word, int op,
                                               uint32_t bits) {
  int flag = op & PRIVATE;
  long before = waiters(word, flag);
  *waiter = (struct waiter){.who = who, .op = op, .word = word, .value = *word, .bits = bits};
  waiter->thread = start(wait_once, waiter);
  wait_until(waiters(word, flag) == before + 1);
}

__attribute__((unused)) static void add_waiters(struct waiter *list, int count, _Atomic uint32_t *word) {
  for (int i = 0; i < count; i++) add_waiter(&list[i], i, word, FUTEX_WAIT | PRIVATE, 0);
}

__attribute__((unused)) static void join_waiters(struct waiter *list, int count) {
  for (int i = 0; i < count; i++) finish(list[i].thread);
}

#endif
