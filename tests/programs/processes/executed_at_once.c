/* A forked child whose first calls close and duplicate descriptors and execute a program: what that finds, and what reaches the
   child meanwhile. */
#include "../check.h"
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

extern char **environ;

static volatile sig_atomic_t handled;
static void count(int signal) { (void)signal, handled++; }

static void end_child(const char *what, pid_t child) {
  int status;
  need(child > 0 && waitpid(child, &status, 0) == child);
  say("%s: %s", what, ended(status));
}

static void compute(int64_t ns) {
  for (int64_t end = now_ns(CLOCK_MONOTONIC) + ns; now_ns(CLOCK_MONOTONIC) < end;) {}
}

/* The new program, before main() changes the mask. */
__attribute__((constructor)) static void report(void) {
  if (!getenv("AT_ONCE")) return;
  check_current = "program";
  sigset_t mask;
  sigprocmask(SIG_BLOCK, NULL, &mask);
  say("blocked: HUP %d, USR1 %d", sigismember(&mask, SIGHUP), sigismember(&mask, SIGUSR1));
  for (int signal = 1; signal < 64; signal++) {
    struct sigaction action = {0};
    sigaction(signal, NULL, &action);
    if (signal == 32 || signal == 33 || action.sa_handler == SIG_DFL) continue;
    say("signal %d: %s", signal, action.sa_handler == SIG_IGN ? "ignored" : "handled");
  }
  cpu_set_t cpus;
  need(sched_getaffinity(0, sizeof cpus, &cpus) == 0);
  say("CPUs %d, the first %d, nice %d", CPU_COUNT(&cpus), CPU_ISSET(0, &cpus), getpriority(PRIO_PROCESS, 0));
  say("timer slack %d", prctl(PR_GET_TIMERSLACK));
  struct rlimit limit;
  need(getrlimit(RLIMIT_CPU, &limit) == 0);
  say("seconds of CPU time %ld of %ld", (long)limit.rlim_cur, (long)limit.rlim_max);
  say("policy %d", sched_getscheduler(0));
  _exit(0);
}

static void prepare(void) {
  sigset_t set;
  sigemptyset(&set), sigaddset(&set, SIGHUP);
  sigprocmask(SIG_BLOCK, &set, NULL);
  signal(SIGUSR1, SIG_IGN), signal(SIGCHLD, count), signal(SIGUSR2, count);
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(0, &cpus);
  need(sched_setaffinity(0, sizeof cpus, &cpus) == 0);
  need(setpriority(PRIO_PROCESS, 0, 3) == 0);
  need(prctl(PR_SET_TIMERSLACK, 12345) == 0);
  need(setrlimit(RLIMIT_CPU, &(struct rlimit){100, 200}) == 0);
  need(sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0}) == 0);
  need(setenv("AT_ONCE", "1", 1) == 0);
}
static void execute_itself(void) { execl("/proc/self/exe", "executed_at_once", NULL); }
static void prepare_and_fork(void) {
  prepare();
  in_child("child", execute_itself);
}
CASE(what_it_inherits) { in_child("parent", prepare_and_fork); }

CASE(a_pipeline) {
  int first[2], second[2];
  need(pipe(first) == 0 && pipe(second) == 0);
  pid_t writer = fork();
  if (writer == 0) {
    close(first[0]), close(second[0]), close(second[1]);
    if (dup2(first[1], 1) != 1 || close(first[1]) != 0) _exit(3);
    if (close(first[1]) != -1 || errno != EBADF || dup2(first[1], 1) != -1 || errno != EBADF) _exit(4);
    execl("/bin/echo", "echo", "one", "line", NULL);
    _exit(5);
  }
  pid_t filter = fork();
  if (filter == 0) {
    close(first[1]), close(second[0]);
    if (dup3(first[0], 0, 0) != 0 || dup2(second[1], 1) != 1) _exit(3);
    close(first[0]), close(second[1]);
    int copy = dup(0);
    if (copy < 3 || close(copy) != 0) _exit(4);
    execl("/bin/cat", "cat", NULL);
    _exit(5);
  }
  close(first[0]), close(first[1]), close(second[1]);
  char text[64] = "";
  ssize_t got, sum = 0;
  while ((got = read(second[0], text + sum, sizeof text - sum - 1)) > 0) sum += got;
  close(second[0]);
  say("%zd bytes: %.8s", sum, text);
  end_child("writer", writer);
  end_child("filter", filter);
}

/* A call that fails, while signals come: each has its handler, those that queue as often as they were sent. */
CASE(signals_while_it_fails) {
  struct sigaction action = {.sa_handler = count};
  sigfillset(&action.sa_mask);
  need(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGWINCH, &action, NULL) == 0);
  need(sigaction(SIGRTMIN + 1, &action, NULL) == 0);
  char **volatile nowhere = (char **)8;
  int good = 0, status;
  for (int i = 0; i < 300; i++) {
    pid_t child = fork();
    if (child == 0) {
      compute(i % 20 * 10000);
      long failed = execve("/bin/true", nowhere, environ);
      if (failed != -1 || errno != EFAULT) _exit(1);
      while (handled < 5) {}
      execve("/bin/true", nowhere, environ);
      _exit(handled == 5 && errno == EFAULT ? 7 : 2);
    }
    need(child > 0);
    compute(i % 7 * 20000);
    need(kill(child, SIGUSR1) == 0 && kill(child, SIGWINCH) == 0);
    for (int n = 0; n < 3; n++) need(sigqueue(child, SIGRTMIN + 1, (union sigval){.sival_int = n}) == 0);
    need(waitpid(child, &status, 0) == child);
    good += WIFEXITED(status) && WEXITSTATUS(status) == 7;
  }
  say("%d of 300", good);
}

/* It computes for about as long as a child does without much, and the program has it all to itself. */
CASE(at_any_time) {
  int sum = 0, status;
  for (int i = 0; i < 60; i++) {
    pid_t child = fork();
    if (child == 0) {
      compute(i * 100000);
      execl("/bin/sh", "sh", "-c", "exit 3", NULL);
      _exit(1);
    }
    need(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    sum += WEXITSTATUS(status);
  }
  say("%d", sum);
}

/* A signal that it has no handler for ends it, before or after. */
CASE(it_can_be_ended) {
  int good = 0, status;
  for (int i = 0; i < 60; i++) {
    pid_t child = fork();
    if (child == 0) {
      execl("/bin/sleep", "sleep", "1000", NULL);
      _exit(1);
    }
    need(child > 0);
    compute(i * 30000);
    need(kill(child, i % 2 ? SIGTERM : SIGALRM) == 0 && waitpid(child, &status, 0) == child);
    good += WIFSIGNALED(status) && WTERMSIG(status) == (i % 2 ? SIGTERM : SIGALRM);
  }
  say("%d of 60", good);
}
