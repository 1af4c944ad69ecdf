/* ppoll, pselect, epoll_pwait and epoll_pwait2: a mask that holds as long as the call. */
#include "../check.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

/* Headers before Linux 5.11 lack this. */
#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

static int ends[2], epoll;
static volatile sig_atomic_t count;
static void note(int signal) {
  (void)signal;
  count++;
}

enum { PPOLL, PSELECT, EPOLL_PWAIT, EPOLL_PWAIT2, CALLS };
static const char *const names[CALLS] = {"ppoll", "pselect", "epoll_pwait", "epoll_pwait2"};

/* Waits until the pipe can be read, at most so long, or without end. */
static int wait_with(int call, int64_t ns, const sigset_t *mask) {
  struct timespec time = timespec_of(ns < 0 ? 0 : ns), *timeout = ns < 0 ? NULL : &time;
  struct epoll_event event;
  fd_set set;
  switch (call) {
    case PPOLL: return ppoll(&(struct pollfd){ends[0], POLLIN, 0}, 1, timeout, mask);
    case PSELECT:
      FD_ZERO(&set);
      FD_SET(ends[0], &set);
      return pselect(ends[0] + 1, &set, NULL, NULL, timeout, mask);
    case EPOLL_PWAIT: return epoll_pwait(epoll, &event, 1, ns < 0 ? -1 : (int)(ns / 1000000), mask);
    default: return syscall(SYS_epoll_pwait2, epoll, &event, 1, timeout, mask, 8);
  }
}

static sigset_t all_but(int signal) {
  sigset_t set;
  sigfillset(&set);
  if (signal) sigdelset(&set, signal);
  return set;
}

static void begin(int flags) {
  need(pipe(ends) == 0 && (epoll = epoll_create1(0)) >= 0);
  need(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &(struct epoll_event){.events = EPOLLIN}) == 0);
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_SETMASK, &blocked, NULL);
  struct sigaction action = {.sa_handler = note, .sa_flags = flags};
  need(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGTERM, &action, NULL) == 0);
  count = 0;
}

static void end(void) {
  close(ends[0]);
  close(ends[1]);
  close(epoll);
}

static const char *mask_now(void) {
  sigset_t set;
  pthread_sigmask(SIG_SETMASK, NULL, &set);
  return sigismember(&set, SIGUSR1) && sigismember(&set, SIGTERM) && !sigismember(&set, SIGUSR2) ? "as before"
                                                                                                 : "another";
}

CASE(pending_before) {
  for (int call = 0; call < CALLS; call++)
    for (int restart = 0; restart < 2; restart++) {
      begin(restart ? SA_RESTART : 0);
      sigset_t open = all_but(SIGUSR1);
      raise(SIGUSR1);
      must(count == 0);
      const char *answer = result(wait_with(call, -1, &open));
      say("%s: %s, handled %d, mask %s", names[call], answer, count, mask_now());
      end();
    }
}

CASE(ready_wins) {
  for (int call = 0; call < CALLS; call++) {
    begin(0);
    sigset_t open = all_but(SIGUSR1), pending;
    raise(SIGUSR1);
    need(write(ends[1], "x", 1) == 1);
    const char *answer = result(wait_with(call, -1, &open));
    sigpending(&pending);
    say("%s: %s, handled %d, pending %d, mask %s", names[call], answer, count, sigismember(&pending, SIGUSR1),
        mask_now());
    sigset_t none;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    say("%s: handled later %d", names[call], count);
    end();
  }
}

CASE(times_out) {
  for (int call = 0; call < CALLS; call++)
    for (int wait = 0; wait < 2; wait++) {
      begin(0);
      sigset_t open = all_but(0);
      int64_t before = now_ns(CLOCK_MONOTONIC), span = wait * 20000000;
      raise(SIGUSR1);
      const char *answer = result(wait_with(call, span, &open));
      must(now_ns(CLOCK_MONOTONIC) - before >= span);
      say("%s: %s, handled %d, mask %s", names[call], answer, count, mask_now());
      sigset_t usr1 = all_but(SIGUSR1);
      say("%s with a signal and no time: %s, handled %d", names[call], result(wait_with(call, 0, &usr1)), count);
      end();
    }
}

static pthread_t waiter;
static atomic_int about;
static void *send_later(void *argument) {
  wait_until(about);
  settle();
  if (argument) kill(getpid(), SIGTERM);
  else pthread_kill(waiter, SIGUSR1);
  return NULL;
}

CASE(while_it_waits) {
  for (int call = 0; call < CALLS; call++)
    for (long process = 0; process < 2; process++) {
      begin(SA_RESTART);
      sigset_t open = all_but(process ? SIGTERM : SIGUSR1);
      waiter = pthread_self();
      about = 0;
      pthread_t thread = start(send_later, (void *)process);
      about = 1;
      const char *answer = result(wait_with(call, -1, &open));
      say("%s: %s, handled %d, mask %s", names[call], answer, count, mask_now());
      finish(thread);
      end();
    }
}

static void *write_later(void *argument) {
  settle();
  pthread_kill(waiter, SIGUSR1);
  settle();
  must(count == 0);
  need(write(ends[1], "x", 1) == 1);
  return argument;
}

/* What the call's mask blocks waits for its end. */
CASE(blocks_meanwhile) {
  for (int call = 0; call < CALLS; call++) {
    begin(0);
    sigset_t none, closed = all_but(0);
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    waiter = pthread_self();
    pthread_t thread = start(write_later, NULL);
    const char *answer = result(wait_with(call, -1, &closed));
    finish(thread);
    say("%s: %s, handled %d", names[call], answer, count);
    end();
  }
}

static void *child_later(void *argument) {
  settle();
  pthread_kill(waiter, SIGCHLD);
  pthread_kill(waiter, SIGCONT);
  settle();
  need(write(ends[1], "x", 1) == 1);
  return argument;
}

/* A signal that nobody handles interrupts nothing. */
CASE(ignored) {
  for (int call = 0; call < CALLS; call++) {
    begin(0);
    sigset_t open;
    sigemptyset(&open);
    waiter = pthread_self();
    pthread_t thread = start(child_later, NULL);
    say("%s: %s, mask %s", names[call], result(wait_with(call, -1, &open)), mask_now());
    finish(thread);
    end();
  }
}

static void terminated(void) {
  begin(0);
  signal(SIGTERM, SIG_DFL);
  sigset_t open = all_but(SIGTERM);
  raise(SIGTERM);
  ppoll(NULL, 0, NULL, &open);
}

CASE(default_action) { in_child("child", terminated); }

/* The mask that a handler finds, and the one that it leaves. */
static sigset_t inside;
static void look(int signal) {
  (void)signal;
  pthread_sigmask(SIG_SETMASK, NULL, &inside);
}

CASE(within_the_handler) {
  for (int call = 0; call < CALLS; call++) {
    begin(0);
    struct sigaction action = {.sa_handler = look};
    sigaction(SIGUSR1, &action, NULL);
    sigset_t open = all_but(SIGUSR1);
    raise(SIGUSR1);
    must(wait_with(call, -1, &open) == -1 && errno == EINTR);
    say("%s: inside USR1 %d, TERM %d, USR2 %d, WINCH %d; mask %s", names[call], sigismember(&inside, SIGUSR1),
        sigismember(&inside, SIGTERM), sigismember(&inside, SIGUSR2), sigismember(&inside, SIGWINCH), mask_now());
    end();
  }
}

CASE(errors) {
  begin(0);
  struct pollfd fd = {ends[0], POLLIN, 0};
  struct epoll_event event;
  sigset_t none;
  sigemptyset(&none);
  struct timespec bad = {0, 1000000000}, negative = {-1, 0}, zero = {0, 0};
  void *const nowhere = (void *)8;
  say("ppoll of a bad size %s", result(syscall(SYS_ppoll, &fd, 1, &zero, &none, 4)));
  say("ppoll of a bad mask %s", result(syscall(SYS_ppoll, &fd, 1, &zero, nowhere, 8)));
  say("ppoll of a bad time %s", result(syscall(SYS_ppoll, &fd, 1, &bad, nowhere, 4)));
  say("ppoll of a negative time %s", result(syscall(SYS_ppoll, &fd, 1, &negative, NULL, 8)));
  say("ppoll of a bad time address %s", result(syscall(SYS_ppoll, &fd, 1, nowhere, &none, 4)));
  say("ppoll of a bad array %s", result(syscall(SYS_ppoll, nowhere, 1, &zero, &none, 8)));
  say("epoll_pwait of a bad size %s", result(syscall(SYS_epoll_pwait, epoll, &event, 1, 0, &none, 4)));
  say("epoll_pwait of no epoll %s", result(syscall(SYS_epoll_pwait, ends[0], &event, 1, 0, &none, 8)));
  say("epoll_pwait of no events %s", result(syscall(SYS_epoll_pwait, epoll, &event, 0, -1, &none, 8)));
  say("epoll_pwait2 of a bad time %s", result(syscall(SYS_epoll_pwait2, epoll, &event, 1, &bad, &none, 8)));
  struct {
    const void *set;
    size_t size;
  } wrong = {&none, 4}, lost = {nowhere, 8};
  say("pselect of a bad size %s", result(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &zero, &wrong)));
  say("pselect of a bad mask %s", result(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &zero, &lost)));
  say("pselect of a bad pair %s", result(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &zero, nowhere)));
  say("pselect of a bad time %s", result(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &bad, &wrong)));
  say("pselect of less than none %s", result(syscall(SYS_pselect6, -1, NULL, NULL, NULL, &zero, NULL)));
  say("mask %s", mask_now());
  end();
}
