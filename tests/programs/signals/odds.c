//@ alone
/* Signals in situations of their own: waited for with the default action, within handlers, after an overflow, in a storm. */
#include "room.h"
#include <setjmp.h>

static volatile sig_atomic_t handled, depth, deepest;
static void note_it(int signal) { handled += signal > 0; }
static void install(int signal, void (*to)(int), int flags) {
  struct sigaction action = {.sa_handler = to, .sa_flags = flags};
  need(sigaction(signal, &action, NULL) == 0);
}

/* Its default action would end the process; blocked by all, it is there for whoever waits for it. */
static atomic_bool stop;
static void *spin(void *argument) {
  while (!stop) sched_yield();
  return argument;
}
static void *wait_for_term(void *argument) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  int signal;
  need(sigwait(&set, &signal) == 0);
  return (void *)(intptr_t)(signal + (argument != NULL));
}
CASE(default_action_but_waited_for) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM), sigaddset(&set, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  pthread_t others[4];
  stop = false;
  for (int i = 0; i < COUNT(others); i++) others[i] = start(spin, NULL);
  for (int i = 0; i < 20; i++) {
    pthread_t waiter = start(wait_for_term, NULL);
    if (i % 2) sleep_ms(2);
    kill(getpid(), SIGTERM);
    must((intptr_t)finish(waiter) == SIGTERM);
  }
  stop = true;
  for (int i = 0; i < COUNT(others); i++) finish(others[i]);
  say("alive");
}

CASE(alarm_ends_a_sleep) {
  install(SIGALRM, note_it, SA_RESTART);
  handled = 0;
  alarm(1);
  unsigned left = sleep(5);
  must(left == 4 || left == 3);
  say("handled %d", handled);
  struct timespec rest, ten = {10, 0};
  alarm(1);
  say("nanosleep %s", result(nanosleep(&ten, &rest)));
  must(rest.tv_sec >= 8);
  say("handled %d", handled);
}

static void raise_again(int signal) {
  depth++;
  if (depth > deepest) deepest = depth;
  if (++handled < 5) raise(signal);
  depth--;
}
CASE(raise_in_a_handler) {
  handled = depth = deepest = 0;
  install(SIGUSR1, raise_again, 0);
  raise(SIGUSR1);
  say("masked: handled %d, deepest %d", handled, deepest);
  handled = depth = deepest = 0;
  install(SIGUSR1, raise_again, SA_NODEFER);
  raise(SIGUSR1);
  say("SA_NODEFER: handled %d, deepest %d", handled, deepest);
}

/* The stack is used up; the handler has its own, leaves by siglongjmp, and all works again. */
static _Thread_local sigjmp_buf back;
static void leave(int signal) { siglongjmp(back, signal); }
static int overflow(int level) {
  volatile char frame[4096];
  frame[level % 4096] = (char)level;
  return level < 0 ? 0 : overflow(level + 1) + frame[0];
}
static void *overflow_twice(void *argument) {
  stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
  need(sigaltstack(&stack, NULL) == 0);
  volatile int times = 0;
  for (int i = 0; i < 3; i++) {
    if (sigsetjmp(back, 1) == 0) overflow(0);
    else times++;
  }
  stack_t now;
  need(sigaltstack(NULL, &now) == 0);
  say("overflows %d, on the stack %d", times, (now.ss_flags & SS_ONSTACK) != 0);
  stack.ss_flags = SS_DISABLE;
  need(sigaltstack(&stack, NULL) == 0);
  free(stack.ss_sp);
  return argument;
}
CASE(alternate_stack_after_overflow) {
  install(SIGSEGV, leave, SA_ONSTACK);
  pthread_t threads[3];
  for (int i = 0; i < COUNT(threads); i++) {
    threads[i] = start(overflow_twice, NULL);
    finish(threads[i]);
  }
  overflow_twice(NULL);
  signal(SIGSEGV, SIG_DFL);
}

/* Another process sends as fast as it can. A standard signal coalesces, so some arrive and the last one does; each real-time
 * signal that was accepted arrives once and in order. */
enum { STORM_MS = 1500 };
static atomic_long last, arrived, wrong;
static void on_value(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  if (info->si_value.sival_int != last + 1) wrong++;
  last = info->si_value.sival_int;
  arrived++;
}
CASE(storm_from_another_process) {
  struct sigaction action = {.sa_sigaction = on_value, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigfillset(&action.sa_mask);
  need(sigaction(SIGRTMIN + 2, &action, NULL) == 0);
  install(SIGUSR2, note_it, SA_RESTART);
  handled = 0;
  last = arrived = wrong = 0;
  /* One receiver of values, or handlers on two threads would write down their order in another. */
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGRTMIN + 2);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  pthread_t others[2];
  stop = false;
  for (int i = 0; i < COUNT(others); i++) others[i] = start(spin, NULL);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  int report[2];
  need(pipe(report) == 0);
  leave_room();
  pid_t parent = getpid(), child = fork();
  need(child != -1);
  if (child == 0) {
    int64_t end = now_ns(CLOCK_MONOTONIC) + STORM_MS * INT64_C(1000000);
    int sent = 0;
    while (now_ns(CLOCK_MONOTONIC) < end) {
      if (sigqueue(parent, SIGRTMIN + 2, (union sigval){.sival_int = sent + 1}) == 0) sent++;
      else if (errno != EAGAIN) _exit(1);
      kill(parent, SIGUSR2);
    }
    _exit(write(report[1], &sent, sizeof sent) != sizeof sent);
  }
  int status, sent = 0;
  need(waitpid(child, &status, 0) == child);
  must(read(report[0], &sent, sizeof sent) == sizeof sent);
  wait_until(arrived == sent);
  say("sender: %s, some %d, wrong %ld", ended(status), sent > 1000, (long)wrong);
  int before = handled;
  kill(parent, SIGUSR2);
  wait_until(handled > before);
  say("standard ones arrive %d", handled > 0);
  stop = true;
  for (int i = 0; i < COUNT(others); i++) finish(others[i]);
  if (getenv("SHOW")) fprintf(stderr, "%d sent\n", sent);
}
