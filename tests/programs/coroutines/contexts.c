/* Coroutines of the C library: makecontext and swapcontext, which keep a signal mask with each. */
#include "../check.h"
#include <ucontext.h>

enum { CONTEXTS = 10, ROUNDS = 2000 };

struct set {
  ucontext_t scheduler, contexts[CONTEXTS];
  char stacks[CONTEXTS][16384];
  int current;
  long sums[CONTEXTS];
};

static __thread struct set *mine;

static void body(void) {
  struct set *set = mine;
  int me = set->current;
  double value = me;
  for (int i = 0; i < ROUNDS; i++) {
    value = value * 1.0000001 + i;
    if (i % 16 == 0) sched_yield();
    swapcontext(&set->contexts[me], &set->scheduler);
    must(set == mine && set->current == me);
  }
  set->sums[me] = (long)value;
}

static void *work(void *unused) {
  (void)unused;
  struct set *set = mine = calloc(1, sizeof *set);
  need(set);
  for (int i = 0; i < CONTEXTS; i++) {
    getcontext(&set->contexts[i]);
    set->contexts[i].uc_stack.ss_sp = set->stacks[i];
    set->contexts[i].uc_stack.ss_size = sizeof set->stacks[i];
    set->contexts[i].uc_link = &set->scheduler;
    makecontext(&set->contexts[i], body, 0);
  }
  for (int round = 0; round <= ROUNDS; round++)
    for (set->current = 0; set->current < CONTEXTS; set->current++)
      swapcontext(&set->scheduler, &set->contexts[set->current]);
  long sum = 0;
  for (int i = 0; i < CONTEXTS; i++) sum += set->sums[i];
  free(set);
  return (void *)sum;
}

CASE(in_four_threads) {
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) threads[i] = start(work, NULL);
  for (int i = 0; i < 4; i++) say("sum %ld", (long)finish(threads[i]));
}

static ucontext_t here, there;
static char one_stack[16384];

static void look_at_mask(void) {
  sigset_t set;
  pthread_sigmask(SIG_SETMASK, NULL, &set);
  say("in the context, SIGUSR1 blocked: %d", sigismember(&set, SIGUSR1));
}

CASE(signal_masks_go_along) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  getcontext(&there);
  there.uc_stack.ss_sp = one_stack;
  there.uc_stack.ss_size = sizeof one_stack;
  there.uc_link = &here;
  there.uc_sigmask = set;
  makecontext(&there, look_at_mask, 0);
  swapcontext(&here, &there);
  pthread_sigmask(SIG_SETMASK, NULL, &set);
  say("afterwards, SIGUSR1 blocked: %d", sigismember(&set, SIGUSR1));
}
