/* Actions and masks that change while signals come from other processes: none is lost, obeyed by mistake, or late. */
#include "../check.h"
#include <poll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/wait.h>

static volatile sig_atomic_t handled;
static void note_it(int signal) {
  (void)signal;
  handled++;
}
static sigset_t only(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  return set;
}

/* Set by a child: it has sent its signal, or may be sent signals. */
static volatile int *ready;

static void begin(void) {
  if (!ready) ready = mmap(NULL, sizeof *ready, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  need(ready != MAP_FAILED);
  *ready = 0;
}

/* A process that sends a signal after a while. */
static pid_t sender(int signal, int ms) {
  begin();
  pid_t to = getpid(), child = fork();
  if (child == 0) {
    sleep_ms(ms);
    kill(to, signal);
    *ready = 1;
    _exit(0);
  }
  return child;
}

/* Makes no system call until so long after the signal was sent. */
static void compute_until_sent(int ms) {
  while (!*ready) {}
  for (int64_t end = now_ns(CLOCK_MONOTONIC) + ms * 1000000; now_ns(CLOCK_MONOTONIC) < end;) {}
}
static void end_of(pid_t child) {
  int status;
  need(waitpid(child, &status, 0) == child && status == 0);
}

/* A pending signal outlives a change of its action to a handler. */
CASE(pending_and_handled_now) {
  static const int signals[] = {SIGCHLD, SIGWINCH, SIGURG, SIGCONT, SIGUSR1};
  for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++) {
    for (int ignored = 0; ignored < 2; ignored++) {
      sigset_t set = only(signals[i]), old;
      need(sigprocmask(SIG_BLOCK, &set, &old) == 0);
      handled = 0;
      if (ignored && signals[i] != SIGCHLD) signal(signals[i], SIG_IGN);
      pid_t child = sender(signals[i], 0);
      if (signals[i] != SIGCHLD) end_of(child);
      else compute_until_sent(20);
      signal(signals[i], note_it);
      need(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
      say("%s, %s: handled %d", sigabbrev_np(signals[i]), ignored ? "ignored before" : "default before", (int)handled);
      if (signals[i] == SIGCHLD) end_of(child);
      signal(signals[i], SIG_DFL);
    }
  }
}

/* Ignored, handled, ignored: never the default action. */
static void flip(int signal_) {
  begin();
  pid_t child = fork();
  if (child == 0) {
    signal(signal_, SIG_IGN);
    *ready = 1;
    for (int64_t end = now_ns(CLOCK_MONOTONIC) + 200 * 1000000; now_ns(CLOCK_MONOTONIC) < end;) {
      signal(signal_, note_it);
      signal(signal_, SIG_IGN);
    }
    _exit(0);
  }
  while (!*ready) sleep_ms(1);
  int status;
  while (waitpid(child, &status, WNOHANG) == 0)
    for (int i = 0; i < 20; i++) kill(child, signal_);
  say("%d: %s", signal_, ended(status));
}
CASE(ignored_and_handled_by_turns) {
  flip(SIGUSR1);
  flip(SIGTERM);
  flip(SIGTSTP);
}

/* A call that does not wait, with a mask that lets a signal through. */
CASE(looking_with_a_mask) {
  sigset_t set = only(SIGUSR1), old;
  need(sigprocmask(SIG_BLOCK, &set, &old) == 0);
  signal(SIGUSR1, note_it);
  struct timespec zero = {0};
  for (int way = 0; way < 2; way++) {
    handled = 0;
    pid_t child = sender(SIGUSR1, 10);
    long result = 0;
    while (result == 0) result = way ? pselect(0, NULL, NULL, NULL, &zero, &old) : ppoll(NULL, 0, &zero, &old);
    say("%s: handled %d", result < 0 && errno == EINTR ? "interrupted" : "NOT interrupted", (int)handled);
    end_of(child);
  }
  need(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
}

/* SIGCONT has a handler, which ends the call during which the process was stopped. */
CASE(stopped_in_a_call) {
  pid_t child = fork();
  if (child == 0) {
    need(setpgid(0, 0) == 0);
    sigset_t set = only(SIGTSTP), old;
    need(sigprocmask(SIG_BLOCK, &set, &old) == 0);
    handled = 0;
    signal(SIGCONT, note_it);
    need(raise(SIGTSTP) == 0);
    int r = sigsuspend(&old);
    _exit(r == -1 && errno == EINTR && handled == 1 ? 3 : 4);
  }
  int status;
  need(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
  need(kill(child, SIGCONT) == 0);
  need(waitpid(child, &status, 0) == child);
  say("%s", ended(status));
}

/* One that was pending is there when the call that unblocks it returns. */
CASE(unblocked_late) {
  static const int signals[] = {SIGUSR1, SIGHUP};
  for (int i = 0; i < 4; i++) {
    int signal_ = i < 2 ? signals[i] : SIGRTMIN + i;
    sigset_t set = only(signal_);
    need(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    signal(signal_, note_it);
    handled = 0;
    pid_t child = sender(signal_, 0);
    compute_until_sent(40);
    need(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
    int at_once = handled;
    say("%d: at once %d", i, at_once);
    end_of(child);
  }
}
