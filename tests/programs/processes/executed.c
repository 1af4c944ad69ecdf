//@ hardened
/* What an execve that fails leaves behind, what a child that shares memory hands on, and how its waits end. */
//@ forms: static
#include "check.h"
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>

extern char **environ;

static atomic_int handled;

static void count(int sig) {
  (void)sig;
  atomic_fetch_add(&handled, 1);
}

static void handle(int sig, int flags) {
  struct sigaction action = {.sa_handler = count, .sa_flags = flags};
  need(sigaction(sig, &action, NULL) == 0);
}

static char *self[] = {"executed", NULL, NULL};
/* A file that is there but cannot be executed. */
static const char *const no_program = "/etc/passwd";

/* A new program that goes on in the case `name`; posix_spawn of a C library leaves it signals 32 and 33 ignored. */
static void spawn(char *name) {
  self[1] = name;
  pid_t child;
  int status, error = posix_spawn(&child, "/proc/self/exe", NULL, NULL, self, environ);
  errno = error;
  need(error == 0);
  need(waitpid(child, &status, 0) == child);
  say("%s: %s", name, ended(status));
}

/* Timers go on: a tick that comes while execve fails is not lost. */
static void timed_failures(void) {
  handle(SIGALRM, SA_RESTART);
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
  struct itimerspec spec = {{0, 200000}, {0, 200000}};
  need(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  need(timer_settime(timer, 0, &spec, NULL) == 0);
  while (atomic_load(&handled) < 300) execve(no_program, self, environ);
  need(timer_delete(timer) == 0);
}

CASE(timers_outlive_failures) {
  if (getenv("EXECUTED")) return timed_failures();
  need(setenv("EXECUTED", "1", 1) == 0);
  spawn("timers_outlive_failures");
  need(unsetenv("EXECUTED") == 0);
}

static void *compute(void *unused) {
  for (int64_t end = now_ns(CLOCK_MONOTONIC) + 3000000; now_ns(CLOCK_MONOTONIC) < end;) {}
  return unused;
}

/* So do threads that come after the failures: what other CPUs are told meanwhile is not lost either. */
CASE(threads_outlive_failures) {
  if (!getenv("EXECUTED")) {
    need(setenv("EXECUTED", "1", 1) == 0);
    spawn("threads_outlive_failures");
    need(unsetenv("EXECUTED") == 0);
    return;
  }
  for (int round = 0; round < 100; round++) {
    pthread_t threads[2];
    for (int i = 0; i < COUNT(threads); i++) threads[i] = start(compute, NULL);
    for (int i = 0; i < COUNT(threads); i++) finish(threads[i]);
    for (int64_t end = now_ns(CLOCK_MONOTONIC) + 6000000; now_ns(CLOCK_MONOTONIC) < end;) execve(no_program, self, environ);
  }
}

/* The path is looked at before arguments and environment. */
static void refusals(void) {
  char **volatile nowhere = (char **)8;
  say("no file, no environment: %s", result(execve("/nonexistent", self, nowhere)));
  say("no file, no arguments: %s", result(execve("/nonexistent", nowhere, environ)));
  say("below a file, no environment: %s", result(execve("/etc/passwd/below", self, nowhere)));
  say("no name, no environment: %s", result(execve("", self, nowhere)));
  say("no path, no environment: %s", result(execve((char *)nowhere, self, nowhere)));
  say("a folder: %s", result(execve("/", self, nowhere)));
  say("a file that is no program: %s", result(execve("/etc/passwd", self, nowhere)));
  say("a program: %s", result(execve("/proc/self/exe", self, nowhere)));
}
CASE(errors_in_order) { refusals(); }

/* A bad address is an error whatever is blocked: here, and at the end of what is mapped. */
CASE(errors_with_all_signals_blocked) {
  sigset_t all, none;
  sigfillset(&all), sigemptyset(&none);
  need(sigprocmask(SIG_SETMASK, &all, NULL) == 0);
  refusals();
  long page = sysconf(_SC_PAGESIZE);
  char *end = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  need(end != MAP_FAILED && mprotect(end + page, page, PROT_NONE) == 0);
  end += page;
  char *strings[] = {"x", end - 4, NULL};
  memcpy(end - 4, "A=b", 4);
  say("ends there: %s, %s", result(execve("/etc/passwd", strings, self)), result(execve("/etc/passwd", self, strings)));
  memcpy(end - 4, "A=bc", 4);
  say("does not: %s, %s", result(execve("/bin/true", strings, self)), result(execve("/bin/true", self, strings)));
  in_child("child", refusals);
  need(sigprocmask(SIG_SETMASK, &none, NULL) == 0 && munmap(end - page, 2 * page) == 0);
}

/* Another thread's bad address is its own affair, also while an exec hands on that faults are ignored. */
static atomic_int enough;
static void *fail_to_execute(void *path) {
  for (int i = 0; i < 3000; i++) need(execl(path, "x", NULL) == -1 && errno == ENOEXEC);
  atomic_store(&enough, 1);
  return NULL;
}
static void beside_execs(void) {
  need(signal(SIGSEGV, SIG_IGN) != SIG_ERR && signal(SIGBUS, SIG_IGN) != SIG_ERR);
  char path[] = "/tmp/no-program-XXXXXX";
  int fd = mkstemp(path), others = 0;
  need(fd >= 0 && write(fd, "hello\n", 6) == 6 && fchmod(fd, 0755) == 0 && close(fd) == 0);
  pthread_t thread = start(fail_to_execute, path);
  while (!atomic_load(&enough)) others += nanosleep((struct timespec *)8, NULL) != -1 || errno != EFAULT;
  finish(thread);
  need(unlink(path) == 0);
  say("other results: %d", others);
}
CASE(faults_beside_failing_execs) { in_child("child", beside_execs); }

/* Runs in the parent's memory until it ends. */
static void in_vfork(int (*body)(void *)) {
  static char stack[65536] __attribute__((aligned(16)));
  int status;
  pid_t child = clone(body, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
  need(child > 0);
  need(waitpid(child, &status, 0) == child);
  say("%s", ended(status));
}

static void waited(const char *what, long value) {
  say("%s: %s, handled %d", what, result(value), atomic_load(&handled) > 0);
  atomic_store(&handled, 0);
}

/* Calls that wait for a signal or for time end with a handler, whatever SA_RESTART says. */
static int waits(void *unused) {
  (void)unused;
  sigset_t one, none;
  sigemptyset(&none);
  sigemptyset(&one);
  sigaddset(&one, SIGUSR2);
  sigprocmask(SIG_BLOCK, &one, NULL);
  kill(getpid(), SIGUSR2);
  waited("sigsuspend", sigsuspend(&none));
  sigprocmask(SIG_SETMASK, &none, NULL);
  /* Again and again, because the first one may come before the wait. */
  struct itimerval often = {{0, 2000}, {0, 2000}}, never = {0};
  struct timespec far = {1000, 0};
  setitimer(ITIMER_REAL, &often, NULL);
  waited("pause", pause());
  waited("nanosleep", nanosleep(&far, NULL));
  waited("clock_nanosleep", clock_nanosleep(CLOCK_MONOTONIC, 0, &far, NULL));
  waited("nanosleep again", syscall(SYS_nanosleep, &far, NULL));
  setitimer(ITIMER_REAL, &never, NULL);
  _exit(0);
}

CASE(waits_in_a_vfork_child) {
  handle(SIGUSR2, SA_RESTART);
  handle(SIGALRM, SA_RESTART);
  in_vfork(waits);
}

static void tell_policy(void) {
  struct sched_param parameter;
  need(sched_getparam(0, &parameter) == 0);
  say("policy %x priority %d", sched_getscheduler(0), parameter.sched_priority);
}

/* SCHED_RESET_ON_FORK is for children, and no child has it. */
CASE(reset_on_fork) {
  tell_policy();
  if (getenv("EXECUTED")) return;
  need(setenv("EXECUTED", "1", 1) == 0);
  struct sched_param parameter = {0}, urgent = {.sched_priority = 3};
  need(sched_setscheduler(0, SCHED_BATCH | SCHED_RESET_ON_FORK, &parameter) == 0);
  spawn("reset_on_fork");
  if (sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &urgent) == 0) spawn("reset_on_fork");
  need(sched_setscheduler(0, SCHED_OTHER, &parameter) == 0);
  need(unsetenv("EXECUTED") == 0);
}

/* What is pending for the process is so after an execve that fails: any thread may take it. */
static atomic_int failed;
static void *lets_in(void *main_blocks) {
  while (!failed) sched_yield();
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD), sigaddset(&set, SIGUSR1);
  int before = handled;
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  say("by another thread %d", handled - before);
  return main_blocks;
}
CASE(pending_for_the_process) {
  handle(SIGCHLD, 0), handle(SIGUSR1, 0);
  sigset_t set, old;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD), sigaddset(&set, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &set, &old);
  pthread_t other = start(lets_in, NULL);
  pid_t me = getpid(), child = fork();
  if (child == 0) {
    kill(me, SIGUSR1);
    _exit(3);
  }
  int status;
  need(waitpid(child, &status, 0) == child);
  say("execve %s", result(execv(no_program, self)));
  failed = 1;
  finish(other);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* Of the folders of a path most do not have the program. */
static void search(void) {
  need(setenv("PATH", "/nonexistent:/etc/passwd:/proc/self/fdinfo:/bin", 1) == 0);
  execlp("sh", "sh", "-c", "exit 5", NULL);
}
static int search_in_vfork(void *unused) {
  (void)unused;
  search();
  _exit(1);
}
CASE(found_by_a_path) {
  in_child("in a child", search);
  in_vfork(search_in_vfork);
}

static int tell_limit(void *limit) {
  need(limit == NULL || setrlimit(RLIMIT_CPU, limit) == 0);
  execl("/bin/sh", "sh", "-c", "ulimit -St; ulimit -Ht", NULL);
  _exit(1);
}
static int limit_itself(void *unused) {
  (void)unused;
  struct rlimit limit = {41, 42};
  return tell_limit(&limit);
}
static int limit_itself_softly(void *unused) {
  (void)unused;
  struct rlimit limit;
  need(getrlimit(RLIMIT_CPU, &limit) == 0);
  limit.rlim_cur = 44;
  return tell_limit(&limit);
}
static int limit_itself_hard(void *unused) {
  (void)unused;
  struct rlimit limit = {42, 42};
  return tell_limit(&limit);
}
/* The limit on CPU time that a child sets is its own and its program's. */
CASE(limit_of_a_vfork_child) {
  fflush(stdout);
  in_vfork(tell_limit);
  in_vfork(limit_itself);
  in_vfork(limit_itself_softly);
  in_vfork(limit_itself_hard);
  struct rlimit limit;
  need(getrlimit(RLIMIT_CPU, &limit) == 0);
  limit.rlim_cur = 43;
  need(setrlimit(RLIMIT_CPU, &limit) == 0);
  in_vfork(tell_limit);
  in_vfork(limit_itself);
  in_vfork(limit_itself_softly);
  in_vfork(limit_itself_hard);
}

static void leave(int sig) {
  (void)sig;
  _exit(7);
}

/* A signal with a handler that comes before the call ends the child by the handler, one that comes later ends the new program. Other
   threads have been there before, or the process is alone. */
static int survivors(bool threads) {
  int lost = 0;
  for (int i = 0; i < 100; i++) {
    int told[2], status;
    need(pipe2(told, O_CLOEXEC) == 0);
    pid_t child = fork();
    if (child == 0) {
      struct sigaction action = {.sa_handler = leave};
      need(sigaction(SIGUSR1, &action, NULL) == 0);
      if (threads) finish(start(compute, NULL));
      need(write(told[1], "", 1) == 1);
      execl("/bin/sleep", "sleep", "0.5", NULL);
      _exit(1);
    }
    char byte;
    need(child > 0 && read(told[0], &byte, 1) == 1);
    for (int64_t end = now_ns(CLOCK_MONOTONIC) + i % 50 * 4000; now_ns(CLOCK_MONOTONIC) < end;) {}
    need(kill(child, SIGUSR1) == 0 && waitpid(child, &status, 0) == child);
    bool handled_here = WIFEXITED(status) && WEXITSTATUS(status) == 7;
    lost += !handled_here && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
    close(told[0]), close(told[1]);
  }
  return lost;
}
CASE(a_signal_at_any_time) {
  say("lost alone: %d", survivors(false));
  say("lost after threads: %d", survivors(true));
}
