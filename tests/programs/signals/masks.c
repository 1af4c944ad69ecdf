/* Masks, pending signals, and the calls that take a signal without a handler. */
//@ forms: static musl
#include "../check.h"
#include <fcntl.h>
#include <sys/signalfd.h>

static sigset_t set_of(int a, int b) {
  sigset_t set;
  sigemptyset(&set);
  if (a) sigaddset(&set, a);
  if (b) sigaddset(&set, b);
  return set;
}

static volatile sig_atomic_t count, last, order[16];
static void note_it(int signal) {
  if (count < COUNT(order)) order[count] = signal;
  count++;
  last = signal;
}

static void install(int signal, int flags) {
  struct sigaction action = {.sa_handler = note_it, .sa_flags = flags};
  need(sigaction(signal, &action, NULL) == 0);
}

CASE(blocked_then_unblocked) {
  sigset_t set = set_of(SIGUSR1, SIGUSR2), pending;
  install(SIGUSR1, 0);
  install(SIGUSR2, 0);
  count = 0;
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  for (int i = 0; i < 5; i++) raise(SIGUSR1);
  raise(SIGUSR2);
  sigpending(&pending);
  say("while blocked %d, pending %d %d", count, sigismember(&pending, SIGUSR1), sigismember(&pending, SIGUSR2));
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  say("standard signals do not queue: %d", count);
}

CASE(real_time_signals_queue) {
  sigset_t set;
  count = 0;
  sigemptyset(&set);
  for (int i = 0; i < 3; i++) {
    install(SIGRTMIN + 3 + i, 0);
    sigaddset(&set, SIGRTMIN + 3 + i);
  }
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  for (int i = 2; i >= 0; i--)
    for (int j = 0; j < 3; j++) must(sigqueue(getpid(), SIGRTMIN + 3 + i, (union sigval){.sival_int = j}) == 0);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  say("delivered %d", count);
  for (int i = 0; i < 9; i++) say("real-time signal %d", order[i] - SIGRTMIN);
}

static void *show_mask(void *unused) {
  (void)unused;
  sigset_t set;
  pthread_sigmask(SIG_SETMASK, NULL, &set);
  for (int signal = 1; signal < 65; signal++)
    if (sigismember(&set, signal) == 1) say("a new thread blocks %d", signal);
  sigpending(&set);
  say("pending there %d", sigismember(&set, SIGUSR1));
  return NULL;
}

CASE(threads_inherit_the_mask) {
  sigset_t set = set_of(SIGUSR1, SIGTERM);
  pthread_sigmask(SIG_SETMASK, &set, NULL);
  pthread_kill(pthread_self(), SIGUSR1);
  finish(start(show_mask, NULL));
  pid_t child = fork();
  if (child == 0) {
    show_mask(NULL);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  signal(SIGUSR1, SIG_IGN);
}

CASE(some_cannot_be_blocked) {
  sigset_t set, now;
  sigfillset(&set);
  pthread_sigmask(SIG_SETMASK, &set, NULL);
  pthread_sigmask(SIG_SETMASK, NULL, &now);
  say("SIGKILL %d, SIGSTOP %d, SIGUSR1 %d", sigismember(&now, SIGKILL), sigismember(&now, SIGSTOP),
      sigismember(&now, SIGUSR1));
  say("bad how %s", result(syscall(SYS_rt_sigprocmask, 77, &set, NULL, 8)));
  say("bad size %s", result(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, NULL, 16)));
  say("bad place %s", result(syscall(SYS_rt_sigprocmask, SIG_BLOCK, (void *)8, NULL, 8)));
}

static void *wait_for_two(void *unused) {
  (void)unused;
  sigset_t set = set_of(SIGUSR1, SIGUSR2);
  for (int i = 0; i < 2; i++) {
    int signal;
    must(sigwait(&set, &signal) == 0);
    say("sigwait took %s", sigabbrev_np(signal));
  }
  return NULL;
}

CASE(sigwait_in_a_thread) {
  sigset_t set = set_of(SIGUSR1, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  pthread_t thread = start(wait_for_two, NULL);
  settle();
  kill(getpid(), SIGUSR2);
  settle();
  pthread_kill(thread, SIGUSR1);
  finish(thread);
}

CASE(sigtimedwait_and_sigwaitinfo) {
  sigset_t set = set_of(SIGUSR1, SIGRTMIN + 2);
  siginfo_t info;
  struct timespec zero = {0, 0}, little = {0, 20000000}, bad = {0, -1};
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  say("nothing %s", result(sigtimedwait(&set, &info, &zero)));
  int64_t before = now_ns(CLOCK_MONOTONIC);
  say("nothing for 20 ms %s", result(sigtimedwait(&set, &info, &little)));
  must(now_ns(CLOCK_MONOTONIC) - before >= 20000000);
  say("bad time %s", result(sigtimedwait(&set, &info, &bad)));
  for (int i = 1; i <= 3; i++) sigqueue(getpid(), SIGRTMIN + 2, (union sigval){.sival_int = i * 10});
  raise(SIGUSR1);
  for (int i = 0; i < 4; i++) {
    int signal = sigwaitinfo(&set, &info);
    say("took %s, value %d, code %d", signal == SIGUSR1 ? "SIGUSR1" : "real-time", signal == SIGUSR1 ? 0 : info.si_value.sival_int,
        info.si_code);
  }
}

static void *raise_later(void *thread) {
  settle();
  pthread_kill(*(pthread_t *)thread, SIGUSR1);
  return NULL;
}

CASE(sigsuspend_restores_the_mask) {
  sigset_t set = set_of(SIGUSR1, 0), none, now;
  pthread_t self = pthread_self();
  sigemptyset(&none);
  install(SIGUSR1, SA_RESTART);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  count = 0;
  pthread_t thread = start(raise_later, &self);
  long answer = sigsuspend(&none);
  say("%s, handled %d", result(answer), count);
  pthread_sigmask(SIG_SETMASK, NULL, &now);
  say("blocked again %d", sigismember(&now, SIGUSR1));
  finish(thread);
}

CASE(signal_descriptor) {
  sigset_t set = set_of(SIGUSR1, SIGUSR2);
  struct signalfd_siginfo info;
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  int fd = signalfd(-1, &set, SFD_NONBLOCK);
  need(fd >= 0);
  say("nothing %s", result(read(fd, &info, sizeof info)));
  kill(getpid(), SIGUSR2);
  kill(getpid(), SIGUSR1);
  for (int i = 0; i < 2; i++) {
    must(read(fd, &info, sizeof info) == sizeof info);
    say("read %s", sigabbrev_np((int)info.ssi_signo));
  }
}

static atomic_int ready, handled_by[5];
static _Thread_local int my_index = -1;
static void note_thread(int signal) {
  (void)signal;
  if (my_index >= 0) handled_by[my_index]++;
  else handled_by[4]++;
}

static atomic_bool stop;
static void *blocked_or_not(void *index) {
  my_index = (int)(intptr_t)index;
  sigset_t set = set_of(SIGUSR1, 0);
  pthread_sigmask(my_index == 2 ? SIG_UNBLOCK : SIG_BLOCK, &set, NULL);
  ready++;
  while (!stop) usleep(1000);
  return NULL;
}

/* A signal to the process goes to the one thread that does not block it. */
CASE(process_signal_finds_the_thread_that_takes_it) {
  pthread_t threads[4];
  sigset_t set = set_of(SIGUSR1, 0);
  struct sigaction action = {.sa_handler = note_thread};
  sigaction(SIGUSR1, &action, NULL);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  for (intptr_t i = 0; i < 4; i++) threads[i] = start(blocked_or_not, (void *)i);
  wait_until(ready == 4);
  for (int i = 1; i <= 100; i++) {
    kill(getpid(), SIGUSR1);
    wait_until(handled_by[2] == i);
  }
  stop = true;
  for (int i = 0; i < 4; i++) finish(threads[i]);
  for (int i = 0; i < 5; i++) say("thread %d handled %d", i, handled_by[i]);
}

CASE(pending_into_nothing) {
  say("no room for %s", result(syscall(SYS_rt_sigpending, (void *)-8, 0)));
  say("some %s", result(syscall(SYS_rt_sigpending, (void *)-8, 4)));
  uint64_t set = ~UINT64_C(0);
  const char *answer = result(syscall(SYS_rt_sigpending, &set, 4));
  say("half %s, %#lx", answer, (long)set);
}

/* What a descriptor may read is taken in the order in which all are. */
CASE(a_descriptor_and_sigwaitinfo) {
  sigset_t set = set_of(SIGUSR1, SIGRTMIN + 2);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  sigdelset(&set, SIGRTMIN + 2);
  int fd = signalfd(-1, &set, SFD_NONBLOCK);
  need(fd >= 0 && sigaddset(&set, SIGRTMIN + 2) == 0);
  need(sigqueue(getpid(), SIGRTMIN + 2, (union sigval){0}) == 0);
  raise(SIGUSR1);
  for (int i = 0; i < 2; i++) say("took %s", sigwaitinfo(&set, NULL) == SIGUSR1 ? "SIGUSR1" : "real-time");
  close(fd);
}
