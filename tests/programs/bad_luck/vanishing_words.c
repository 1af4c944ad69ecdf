/* Words of futexes whose page is taken away, made read-only and brought back while the calls run. */
#include "../futex/futex.h"

enum { LENGTH = 8192 };

static char *place;
static atomic_bool stop;

/* The addresses stay reserved, so that nothing else comes to lie there. */
static void *change(void *unused) {
  static const int protections[] = {PROT_NONE, PROT_READ | PROT_WRITE, PROT_READ, PROT_READ | PROT_WRITE};
  for (unsigned i = 0; !stop; i++) {
    int protection = protections[i % 4];
    need(mmap(place, LENGTH, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == place);
    if (i % 8 == 0) sched_yield();
  }
  return unused;
}

static bool allowed(long answer) {
  if (answer >= 0) return true;
  return errno == EFAULT || errno == EAGAIN || errno == ETIMEDOUT || errno == EINVAL || errno == EPERM ||
         errno == ESRCH || errno == EDEADLK;
}

static void *call_futexes(void *seed) {
  unsigned state = (unsigned)(uintptr_t)seed * 2654435761u;
  static const int ops[] = {FUTEX_WAIT, FUTEX_WAKE, FUTEX_WAIT_BITSET, FUTEX_CMP_REQUEUE, FUTEX_WAKE_OP,
                            FUTEX_TRYLOCK_PI, FUTEX_UNLOCK_PI, FUTEX_REQUEUE};
  static _Atomic uint32_t good;
  for (int i = 0; i < 20000; i++) {
    state = state * 1664525 + 1013904223;
    void *word = place + (state >> 8) % 2 * 4096;
    int op = ops[(state >> 16) % COUNT(ops)];
    bool counts = op == FUTEX_CMP_REQUEUE || op == FUTEX_WAKE_OP || op == FUTEX_REQUEUE;
    struct timespec little = {0, 1000};
    void *second = state >> 20 & 1 ? word : &good;
    int flag = state >> 21 & 1 ? PRIVATE : 0;
    must(allowed(futex(word, op | flag, 0, counts ? (void *)1 : (void *)&little, second, 1)));
  }
  return NULL;
}

CASE(calls_survive) {
  pthread_t callers[4];
  place = mmap(NULL, LENGTH, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  need(place != MAP_FAILED);
  stop = false;
  pthread_t changer = start(change, NULL);
  for (intptr_t i = 0; i < 4; i++) callers[i] = start(call_futexes, (void *)(i + 1));
  for (int i = 0; i < 4; i++) finish(callers[i]);
  stop = true;
  finish(changer);
  say("survived");
}

static _Atomic uint32_t *word;
static void *wait_for_wake(void *unused) {
  (void)unused;
  return (void *)(intptr_t)(futex(word, FUTEX_WAIT | PRIVATE, 0, NULL, NULL, 0) == 0);
}

/* A private waiter is found by address alone, whatever became of the page. */
CASE(waiter_outlives_its_page) {
  static const int protections[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};
  for (int i = 0; i < COUNT(protections); i++) {
    place = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    word = (_Atomic uint32_t *)place;
    pthread_t thread = start(wait_for_wake, NULL);
    wait_until(waiters(word, PRIVATE) == 1);
    need(mmap(place, 4096, protections[i], MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == place);
    say("wake %s", result(futex_wake(word, 1)));
    say("came back %ld", (long)(intptr_t)finish(thread));
    munmap(place, 4096);
  }
}

/* The robust list of a thread lies in memory that it gives back before it ends. */
static void *lose_the_list(void *unused) {
  (void)unused;
  struct robust_list_head *head = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  head->list.next = &head->list;
  must(syscall(SYS_set_robust_list, head, sizeof *head) == 0);
  munmap(head, 4096);
  return NULL;
}

CASE(robust_list_is_lost) {
  for (int i = 0; i < 100; i++) finish(start(lose_the_list, NULL));
  say("survived");
}

/* The word that is cleared at a thread's end (set_tid_address) lies nowhere. */
static void *lose_the_tid_word(void *bad_place) {
  must(syscall(SYS_set_tid_address, bad_place) == gettid());
  /* libc would wait for the word it knows: end without it. */
  syscall(SYS_exit, 0);
  return NULL;
}

CASE(tid_word_is_lost) {
  void *bad[] = {(void *)8, (void *)0xffff888000000000, NULL};
  for (int i = 0; i < COUNT(bad); i++) {
    pthread_t thread = start(lose_the_tid_word, bad[i]);
    pthread_detach(thread);
  }
  settle();
  say("survived");
}
