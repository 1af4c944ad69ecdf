/* Signals: queued, counted, in order, to the thread that was meant, on the stack that was meant; and faults. */
#ifndef SIGNALS_H
#define SIGNALS_H

#include "memory.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

/* glibc's SIGRTMIN is a call. */
#define SIG_ANYBODY (SIGRTMIN + 1)
#define SIG_WORKER (SIGRTMIN + 2)
#define SIG_WAITED (SIGRTMIN + 3)

enum { STACK = 64 * 1024 };

static atomic_ulong sent, sent_sum, received, received_sum;
static _Thread_local volatile sig_atomic_t handled;
static _Thread_local uint8_t *stack;
static _Thread_local sigjmp_buf *way_out;
static _Thread_local uint8_t *expected_fault;
static uint8_t *forbidden;

/* Nothing of what it does may be seen by whom it interrupts. */
static void disturb(void) {
  volatile double sum = 1;
  uint8_t bytes[300];
  for (int i = 0; i < 20; i++) sum = sum * 1.5 + i;
  memset(bytes, (int)sum, sizeof bytes);
  __asm__ volatile("" : : "r"(bytes) : "memory");
}

static void on_anybody(int signal, siginfo_t *info, void *context) {
  (void)context;
  int error = errno;
  if (info->si_code != SI_QUEUE || info->si_pid != getpid() || signal != SIG_ANYBODY)
    broken("signal %d came with code %d from %d", signal, info->si_code, info->si_pid);
  atomic_fetch_add(&received, 1);
  atomic_fetch_add(&received_sum, (unsigned long)info->si_value.sival_int);
  disturb();
  errno = error;
}

static void on_worker(int signal, siginfo_t *info, void *context) {
  (void)context, (void)signal;
  int error = errno;
  uint8_t here;
  if (!me || me->index != info->si_value.sival_int)
    broken("a signal for thread %d came here", info->si_value.sival_int);
  if (stack && (&here < stack || &here >= stack + STACK)) broken("not on the signal stack");
  disturb();
  errno = error;
}

static void on_own(int signal) {
  (void)signal;
  handled++;
  disturb();
}

static void on_nothing(int signal) {
  int error = errno;
  (void)signal;
  disturb();
  errno = error;
}

static void on_fault(int signal, siginfo_t *info, void *context) {
  (void)context;
  if (!way_out || info->si_addr != expected_fault || info->si_code != SEGV_ACCERR) {
    broken("signal %d, code %d, at %p", signal, info->si_code, info->si_addr);
    _exit(3);
  }
  siglongjmp(*way_out, 1);
}

static void handle(int signal, void (*plain)(int), void (*full)(int, siginfo_t *, void *), int flags) {
  struct sigaction action = {.sa_flags = SA_RESTART | flags | (full ? SA_SIGINFO : 0)};
  if (full) action.sa_sigaction = full;
  else action.sa_handler = plain;
  if (sigaction(signal, &action, NULL) != 0) broken("sigaction of %d answered %d", signal, errno);
}

static void init_signals(void) {
  forbidden = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  handle(SIG_ANYBODY, NULL, on_anybody, 0);
  handle(SIG_WORKER, NULL, on_worker, SA_ONSTACK);
  handle(SIGUSR1, on_own, NULL, SA_ONSTACK);
  handle(SIGSEGV, NULL, on_fault, SA_ONSTACK);
  handle(SIGALRM, on_nothing, NULL, 0);
  handle(SIGPROF, on_nothing, NULL, 0);
  handle(SIGVTALRM, on_nothing, NULL, SA_ONSTACK);
}

/* A worker takes signals on a stack of its own. */
static void init_signal_stack(void) {
  uint8_t *bytes = malloc(STACK);
  stack_t own = {.ss_sp = bytes, .ss_size = STACK};
  if (bytes && sigaltstack(&own, NULL) == 0) stack = bytes;
}

static void drop_signal_stack(void) {
  uint8_t *bytes = stack;
  if (!bytes) return;
  stack = NULL;
  check(sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL) == 0, "sigaltstack answered %d", errno);
  free(bytes);
}

static void queue_to_anybody(void) {
  int value = 1 + (int)dice(1000);
  if (sigqueue(getpid(), SIG_ANYBODY, (union sigval){.sival_int = value}) == 0) {
    atomic_fetch_add(&sent, 1);
    atomic_fetch_add(&sent_sum, (unsigned long)value);
  } else {
    check(errno == EAGAIN, "sigqueue answered %d", errno);
  }
}

static void queue_to_worker(void) {
  const struct worker *worker = &workers[dice((uint64_t)worker_count)];
  if (!atomic_load(&worker->begun)) return;
  int error = pthread_sigqueue(worker->thread, SIG_WORKER, (union sigval){.sival_int = worker->index});
  check(error == 0 || error == EAGAIN || error == ESRCH, "pthread_sigqueue answered %d", error);
}

/* A signal to oneself comes before the call returns; a blocked one waits until it is let through. */
static void signal_myself(void) {
  sigset_t own, before;
  sig_atomic_t count = handled;
  check(tgkill(getpid(), gettid(), SIGUSR1) == 0, "tgkill answered %d", errno);
  check(handled == count + 1, "a signal to oneself came %d times", (int)(handled - count));
  sigemptyset(&own);
  sigaddset(&own, SIGUSR1);
  check(pthread_sigmask(SIG_BLOCK, &own, &before) == 0, "the mask cannot be set");
  check(tgkill(getpid(), gettid(), SIGUSR1) == 0, "tgkill answered %d", errno);
  if (dice(2)) sched_yield();
  check(handled == count + 1, "a blocked signal came");
  /* Another one may come first and end the suspension. */
  for (int i = 0; i < 1000 && handled == count + 1; i++)
    check(sigsuspend(&before) == -1 && errno == EINTR, "sigsuspend answered %d", errno);
  check(handled == count + 2, "sigsuspend let %d through", (int)(handled - count - 1));
  check(pthread_sigmask(SIG_SETMASK, &before, &own) == 0 && sigismember(&own, SIGUSR1), "the mask was changed");
}

/* Waits for a signal that is blocked; handlers of others do not end the wait. */
static int wait_for_signal(const sigset_t *set, siginfo_t *info, struct timespec patience) {
  int answer;
  while ((answer = sigtimedwait(set, info, &patience)) < 0 && errno == EINTR) {}
  return answer;
}

static void wait_for_queued(void) {
  sigset_t set, before;
  siginfo_t info;
  int count = 1 + (int)dice(5), queued = 0;
  sigemptyset(&set);
  sigaddset(&set, SIG_WAITED);
  pthread_sigmask(SIG_BLOCK, &set, &before);
  for (; queued < count; queued++)
    if (pthread_sigqueue(pthread_self(), SIG_WAITED, (union sigval){.sival_int = queued}) != 0) break;
  for (int i = 0; i < queued; i++) {
    int answer = wait_for_signal(&set, &info, (struct timespec){10, 0});
    check(answer == SIG_WAITED, "sigtimedwait answered %d, %d", answer, errno);
    check(answer < 0 || info.si_value.sival_int == i, "signal %d of %d is %d", i, queued, info.si_value.sival_int);
  }
  int64_t from = monotonic_ns();
  long span = (long)dice(300000);
  int answer = sigtimedwait(&set, &info, &(struct timespec){0, span});
  check(answer < 0 && (errno == EAGAIN || errno == EINTR), "a signal too many: %d, %d", answer, errno);
  check(errno != EAGAIN || monotonic_ns() - from >= span, "sigtimedwait ended early");
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void fault(void) {
  sigjmp_buf here;
  volatile uint64_t kept = next_random(&me->random), copy = kept;
  expected_fault = forbidden + dice(4096);
  way_out = &here;
  if (sigsetjmp(here, 1) == 0) {
    *(volatile uint8_t *)expected_fault = 1;
    broken("a write to a forbidden page went well");
  }
  way_out = NULL;
  /* A handler begins with the default mode, and a jump out of it restores none. */
  fesetround(rounding_modes[rounding]);
  check(kept == copy, "a fault changed a variable");
}

/* All signals that were queued have come, and each once. */
static void count_signals(void) {
  for (int i = 0; i < 1000 && atomic_load(&received) < atomic_load(&sent); i++)
    nanosleep(&(struct timespec){0, 10000000}, NULL);
  if (atomic_load(&received) != atomic_load(&sent) || atomic_load(&received_sum) != atomic_load(&sent_sum))
    broken("%lu signals were queued and %lu came; their values add up to %lu and %lu", atomic_load(&sent),
           atomic_load(&received), atomic_load(&sent_sum), atomic_load(&received_sum));
}

#endif
