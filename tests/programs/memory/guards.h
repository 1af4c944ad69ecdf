/* Threads that touch the byte below their stack. */
#include "../check.h"
#include <setjmp.h>

static pthread_barrier_t all_there;
static atomic_int caught, forbidden;
static _Thread_local sigjmp_buf own_fault;

static void on_own_fault(int signal, siginfo_t *info, void *unused) {
  (void)unused;
  atomic_fetch_add(&forbidden, info->si_code == SEGV_ACCERR);
  siglongjmp(own_fault, signal);
}

static void *overflow(void *unused) {
  pthread_attr_t attr;
  void *stack;
  size_t size;
  char handler_stack[32768];
  stack_t own = {.ss_sp = handler_stack, .ss_size = sizeof handler_stack};
  need(sigaltstack(&own, NULL) == 0);
  need(pthread_getattr_np(pthread_self(), &attr) == 0);
  pthread_attr_getstack(&attr, &stack, &size);
  pthread_barrier_wait(&all_there);
  if (sigsetjmp(own_fault, 1) == 0) ((volatile char *)stack)[-1] = 1;
  else atomic_fetch_add(&caught, 1);
  own.ss_flags = SS_DISABLE;
  sigaltstack(&own, NULL);
  return unused;
}

static void overflow_each(int threads) {
  struct sigaction action = {.sa_sigaction = on_own_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
  need(sigaction(SIGSEGV, &action, NULL) == 0);
  atomic_store(&caught, 0), atomic_store(&forbidden, 0);
  pthread_t *all = calloc(threads, sizeof *all);
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, 64 << 10);
  pthread_barrier_init(&all_there, NULL, threads);
  for (int i = 0; i < threads; i++) need(pthread_create(&all[i], &attr, overflow, NULL) == 0);
  for (int i = 0; i < threads; i++) need(pthread_join(all[i], NULL) == 0);
  say("%d of %d caught, %d as forbidden", caught, threads, forbidden);
}
