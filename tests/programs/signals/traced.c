/* A process that has asked to be traced stops for each of its signals, and its tracer decides whether it gets them. */
#include "../check.h"
#include <sys/ptrace.h>

static volatile sig_atomic_t handled;
static void note_it(int signal) { handled += signal > 0; }

/* Under Entresol a tracer sees the host's signals, too, and has to pass them. */
static bool is_of_the_host(int status) {
  return WIFSTOPPED(status) && (WSTOPSIG(status) == SIGSYS || WSTOPSIG(status) == 32 || WSTOPSIG(status) == 33);
}

static void let_go_on(pid_t child, int signal) {
  int status;
  need(waitpid(child, &status, 0) == child);
  while (is_of_the_host(status)) {
    need(ptrace(PTRACE_CONT, child, NULL, (void *)(intptr_t)WSTOPSIG(status)) == 0);
    need(waitpid(child, &status, 0) == child);
  }
  if (WIFEXITED(status)) {
    say("exit status %d", WEXITSTATUS(status));
    return;
  }
  siginfo_t info;
  memset(&info, 0, sizeof info);
  need(WIFSTOPPED(status) && ptrace(PTRACE_GETSIGINFO, child, NULL, &info) == 0);
  say("stopped by %d code %d from itself %d", WSTOPSIG(status), info.si_code, info.si_pid == child);
  need(ptrace(PTRACE_CONT, child, NULL, (void *)(intptr_t)signal) == 0);
}
static void stop_for(int signal, void (*action)(int), bool pass) {
  pid_t child = fork();
  if (child == 0) {
    need(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, signal);
    struct sigaction how = {.sa_handler = action};
    need(sigaction(signal, &how, NULL) == 0);
    kill(getpid(), signal);
    tgkill(getpid(), gettid(), signal);
    sigprocmask(SIG_BLOCK, &set, NULL);
    sigqueue(getpid(), signal, (union sigval){.sival_int = 7});
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    _exit(10 + handled);
  }
  for (int i = 0; i < 3; i++) let_go_on(child, pass ? signal : 0);
  let_go_on(child, 0);
}
CASE(handled_ones) { stop_for(SIGUSR1, note_it, true); }
CASE(handled_and_taken_away) { stop_for(SIGUSR1, note_it, false); }
CASE(ignored_ones) { stop_for(SIGUSR2, SIG_IGN, true); }
CASE(ignored_by_default) { stop_for(SIGURG, SIG_DFL, true); }
CASE(real_time) { stop_for(SIGRTMIN + 1, note_it, true); }

/* No tracer is asked. */
CASE(killed_by_itself) {
  pid_t child = fork();
  if (child == 0) {
    need(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
    kill(getpid(), SIGKILL);
    _exit(1);
  }
  int status;
  need(waitpid(child, &status, 0) == child);
  say("signaled %d by %d", WIFSIGNALED(status), WTERMSIG(status));
}
