//@ hardened
//@ options: --no-note
/* Processes as programs make them: by threads in crowds, by vfork with a busy child, by exec with signals pending, as daemons. */
//@ forms: static-pie
#include "../check.h"
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>

extern char **environ;

/* A hundred threads, each with a child that uses the C library. */
static void *fork_once(void *argument) {
  pid_t child = fork();
  if (child == 0) {
    void *block = malloc(1000);
    sleep_ms(1);
    _exit(block == NULL ? 1 : 7);
  }
  int status = 0;
  need(child != -1 && waitpid(child, &status, 0) == child);
  return (void *)(intptr_t)(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  (void)argument;
}
CASE(fork_by_a_hundred_threads) {
  pthread_t threads[100];
  int good = 0;
  for (int i = 0; i < COUNT(threads); i++) threads[i] = start(fork_once, NULL);
  for (int i = 0; i < COUNT(threads); i++) good += finish(threads[i]) != NULL;
  say("good children %d", good);
}

static void *vfork_once(void *argument) {
  volatile int calls = 0;
  pid_t child = vfork();
  if (child == 0) {
    for (int i = 0; i < 300; i++) {
      calls += getppid() > 0;
      int fd = open("/dev/null", O_RDONLY);
      calls += fd >= 0;
      calls += close(fd) == 0;
      int ends[2];
      if (pipe(ends) == 0) {
        calls += write(ends[1], "x", 1) == 1;
        char byte;
        calls += read(ends[0], &byte, 1) == 1;
        close(ends[0]), close(ends[1]);
      }
    }
    if (argument) execl("/bin/true", "true", NULL);
    _exit(5);
  }
  int status;
  need(child != -1 && waitpid(child, &status, 0) == child);
  say("calls %d, %s", calls, ended(status));
  return NULL;
}
CASE(busy_vfork_child) {
  vfork_once(NULL);
  vfork_once((void *)1);
  pthread_t threads[4];
  for (int i = 0; i < COUNT(threads); i++) threads[i] = start(vfork_once, NULL);
  for (int i = 0; i < COUNT(threads); i++) finish(threads[i]);
}

/* exec in a vfork child, over and over, leaves nothing behind in its parent. */
static long resident_pages(void) {
  long all, resident;
  FILE *file = fopen("/proc/self/statm", "r");
  need(file && fscanf(file, "%ld %ld", &all, &resident) == 2);
  fclose(file);
  return resident;
}
static void spawn_true(char **environment) {
  pid_t child;
  char *arguments[] = {"true", NULL};
  int status;
  need(posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environment) == 0);
  need(waitpid(child, &status, 0) == child && status == 0);
}
CASE(spawn_leaves_nothing_behind) {
  enum { MANY = 20000 };
  static char *environment[MANY + 1];
  for (int i = 0; i < MANY; i++) environment[i] = "A=1";
  for (int i = 0; i < 5; i++) spawn_true(environment);
  long before = resident_pages();
  for (int i = 0; i < 40; i++) spawn_true(environment);
  /* 40 environments of 160 KB would be 1,600 pages. */
  must(resident_pages() - before < 400);
  char *arguments[] = {"none", NULL};
  for (int i = 0; i < 40; i++) {
    pid_t child;
    say("%s", errname(posix_spawn(&child, "/nowhere/none", NULL, NULL, arguments, environment)));
  }
  must(resident_pages() - before < 400);
}

/* What is pending is pending in the next program. */
static void *exec_in_thread(void *argument) {
  execv("/proc/self/exe", argument);
  return NULL;
}
static void block(int a, int b, int c) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, a), sigaddset(&set, b), sigaddset(&set, c);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
}
static void report_pending(void) {
  sigset_t set;
  siginfo_t info;
  sigpending(&set);
  say("pending: USR1 %d, USR2 %d, RT %d, TERM %d", sigismember(&set, SIGUSR1), sigismember(&set, SIGUSR2),
      sigismember(&set, SIGRTMIN + 3), sigismember(&set, SIGTERM));
  block(SIGUSR1, SIGUSR2, SIGRTMIN + 3);
  sigfillset(&set);
  sigdelset(&set, SIGCHLD);
  int got;
  while ((got = sigtimedwait(&set, &info, &(struct timespec){0})) > 0)
    say("signal %d, code %d, value %d, own %d", got, info.si_code, info.si_value.sival_int, info.si_pid == getpid());
}
static const char *next_program = "/proc/self/exe";
static void send_and_exec(bool by_thread, bool fail_first) {
  block(SIGUSR1, SIGUSR2, SIGRTMIN + 3);
  kill(getpid(), SIGUSR1);
  pthread_kill(pthread_self(), SIGUSR2);
  for (int i = 1; i <= 3; i++) sigqueue(getpid(), SIGRTMIN + 3, (union sigval){.sival_int = i});
  setenv("AGAIN", "pending", 1);
  char *arguments[] = {"life", NULL};
  if (fail_first) {
    say("exec %s", result(execv("/nowhere/none", arguments)));
    sigset_t set;
    sigpending(&set);
    say("still pending: %d %d %d", sigismember(&set, SIGUSR1), sigismember(&set, SIGUSR2),
        sigismember(&set, SIGRTMIN + 3));
    struct timespec zero = {0};
    siginfo_t info;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 3);
    say("first %d", sigtimedwait(&set, &info, &zero) == SIGRTMIN + 3 ? info.si_value.sival_int : -1);
  }
  if (by_thread) finish(start(exec_in_thread, arguments));
  else execv(next_program, arguments);
  _exit(9);
}
static void of_main(void) { send_and_exec(false, false); }
static void after_a_failure(void) { send_and_exec(false, true); }
CASE(exec_with_pending_signals) {
  in_child("main thread", of_main);
  in_child("after a failed exec", after_a_failure);
  /* The name of a process is any bytes, which its status in /proc shows as they are. */
  static char link[64], program[PATH_MAX];
  need(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
  snprintf(link, sizeof link, "/tmp/life-%d-\xff\xfe", getpid());
  need(symlink(program, link) == 0);
  next_program = link;
  in_child("under a strange name", of_main);
  unlink(link);
}

/* The mask and ignored signals, too; handlers are gone. */
static void never(int signal) { _exit(signal); }
static void report_dispositions(void) {
  struct sigaction action;
  sigset_t mask;
  sigprocmask(SIG_BLOCK, NULL, &mask);
  say("blocked: HUP %d, USR1 %d", sigismember(&mask, SIGHUP), sigismember(&mask, SIGUSR1));
  sigaction(SIGUSR1, NULL, &action);
  say("USR1 ignored %d", action.sa_handler == SIG_IGN);
  sigaction(SIGUSR2, NULL, &action);
  say("USR2 default %d", action.sa_handler == SIG_DFL);
}

/* Before main() changes the mask. */
__attribute__((constructor)) static void report(void) {
  const char *what = getenv("AGAIN");
  if (!what) return;
  check_current = what;
  if (strcmp(what, "pending") == 0) report_pending();
  else report_dispositions();
  _exit(0);
}
static void exec_with_dispositions(void) {
  signal(SIGUSR1, SIG_IGN);
  signal(SIGUSR2, never);
  block(SIGHUP, SIGHUP, SIGHUP);
  setenv("AGAIN", "dispositions", 1);
  execl("/proc/self/exe", "life", NULL);
}
CASE(exec_with_dispositions) { in_child("main thread", exec_with_dispositions); }

/* Descriptors. */
static int open_count(int below) {
  int count = 0;
  for (int fd = 0; fd < below; fd++) count += fcntl(fd, F_GETFD) != -1;
  return count;
}
static void *sleep_and_yield(void *argument) {
  while (!*(atomic_bool *)argument) sleep_ms(1);
  return NULL;
}
static void close_them(void) {
  atomic_bool stop = false;
  pthread_t thread = start(sleep_and_yield, &stop);
  for (int i = 0; i < 20; i++) need(open("/dev/null", O_RDONLY) >= 0);
  int lowest = dup(0);
  say("close_range %s", result(close_range(lowest - 5, lowest, 0)));
  say("left %d", open_count(100) < 20);
  say("cloexec %s", result(close_range(3, ~0U, CLOSE_RANGE_CLOEXEC)));
  say("flag %d", fcntl(3, F_GETFD));
  closefrom(3);
  say("left %d", open_count(1000));
  int ends[2];
  need(pipe(ends) == 0);
  say("new ones %d %d", ends[0], ends[1]);
  stop = true;
  finish(thread);
  thread = start(fork_once, NULL);
  say("fork %d", finish(thread) != NULL);
  /* Who joins hears of the end before the thread is out of the count, and with others there it is refused. */
  wait_until(close_range(3, ~0U, CLOSE_RANGE_UNSHARE) == 0);
  closefrom(0);
  sleep_ms(5);
  _exit(open_count(1000));
}
CASE(all_descriptors_are_closed) { in_child("child", close_them); }

static void *touch(void *argument) {
  char bytes[20000];
  memset(bytes, 1, sizeof bytes);
  sched_yield();
  return (void *)(intptr_t)(bytes[100] + (argument != NULL));
}
static void lock_all(void) {
  say("mlockall %s", result(mlockall(MCL_CURRENT | MCL_FUTURE)));
  for (int round = 0; round < 3; round++) {
    pthread_t threads[8];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    for (int i = 0; i < COUNT(threads); i++) need(pthread_create(&threads[i], &attributes, touch, NULL) == 0);
    for (int i = 0; i < COUNT(threads); i++) finish(threads[i]);
  }
  say("munlockall %s", result(munlockall()));
}
CASE(memory_is_locked) {
  in_child("child", lock_all);
}

/* A daemon: two forks, a session, no terminal, a pipe that says it lives. */
static void become_daemon(int out) {
  if (fork() != 0) _exit(0);
  setsid();
  signal(SIGHUP, SIG_IGN);
  if (fork() != 0) _exit(0);
  need(chdir("/") == 0);
  umask(0);
  freopen("/dev/null", "r", stdin);
  pthread_t thread = start(touch, NULL);
  char text[64];
  int length = snprintf(text, sizeof text, "leader %d, thread %d", getsid(0) == getpid(), (int)(intptr_t)finish(thread));
  must(write(out, text, length) == length);
  _exit(0);
}
CASE(forks_twice) {
  int ends[2], status;
  need(pipe(ends) == 0);
  pid_t child = fork();
  if (child == 0) become_daemon(ends[1]);
  close(ends[1]);
  need(waitpid(child, &status, 0) == child);
  char text[64] = "";
  ssize_t got = read(ends[0], text, sizeof text - 1);
  say("%zd bytes: %s", got, text);
  say("end %s", result(read(ends[0], text, 1)));
  close(ends[0]);
  say("daemon() in a child:");
  child = fork();
  if (child == 0) {
    if (daemon(1, 1) != 0) _exit(1);
    _exit(0);
  }
  need(waitpid(child, &status, 0) == child);
  say("%s", ended(status));
}

/* The C library's ways, from several threads. */
static void *by_shell(void *argument) {
  int status = system("exit 3");
  FILE *stream = popen("echo out; exit 4", "r");
  char line[16] = "";
  need(stream && fgets(line, sizeof line, stream));
  int closed = pclose(stream);
  stream = popen("cat >/dev/null", "w");
  need(stream && fprintf(stream, "in\n") == 3);
  int written = pclose(stream);
  return (void *)(intptr_t)(WEXITSTATUS(status) == 3 && strcmp(line, "out\n") == 0 && WEXITSTATUS(closed) == 4 && written == 0 &&
                            argument == NULL);
}
CASE(system_and_popen) {
  say("main thread %d", by_shell(NULL) != NULL);
  pthread_t threads[4];
  for (int i = 0; i < COUNT(threads); i++) threads[i] = start(by_shell, NULL);
  for (int i = 0; i < COUNT(threads); i++) say("a thread %d", finish(threads[i]) != NULL);
  signal(SIGCHLD, SIG_IGN);
  say("ignored: system %s", result(system("exit 0")));
  signal(SIGCHLD, SIG_DFL);
  say("command not found: %d", WEXITSTATUS(system("/nowhere/none 2>/dev/null")));
  say("killed: %d", WTERMSIG(system("kill -9 $$")));
}

/* A program that has no dynamic linker is run natively. */
CASE(static_program) {
  static const char source[] = "int main(int c, char **v) { return c * 10 + (v[1] ? v[1][0] - '0' : 0); }";
  char path[64], command[256];
  snprintf(path, sizeof path, "/tmp/entresol-static-%d", getpid());
  snprintf(command, sizeof command, "printf '%%s' \"%s\" | cc -static -x c - -o %s 2>/dev/null", source, path);
  need(system(command) == 0);
  pid_t child = fork();
  if (child == 0) {
    execl(path, path, "7", NULL);
    _exit(99);
  }
  int status;
  need(waitpid(child, &status, 0) == child);
  say("by exec: %s", ended(status));
  char *arguments[] = {path, "3", NULL};
  need(posix_spawn(&child, path, NULL, NULL, arguments, environ) == 0);
  need(waitpid(child, &status, 0) == child);
  say("by spawn: %s", ended(status));
  unlink(path);
}

/* Groups: a signal to all of them, a stop that the parent sees. */
CASE(groups_and_stops) {
  int status;
  pid_t children[3];
  for (int i = 0; i < 3; i++) {
    children[i] = fork();
    if (children[i] == 0) {
      for (;;) pause();
    }
    need(setpgid(children[i], children[0]) == 0);
  }
  sleep_ms(50);
  must(kill(-children[0], SIGSTOP) == 0);
  for (int i = 0; i < 3; i++) {
    must(waitpid(children[i], &status, WUNTRACED) == children[i]);
    say("stopped %d by %s", WIFSTOPPED(status), sigabbrev_np(WSTOPSIG(status)));
  }
  must(kill(-children[0], SIGCONT) == 0);
  for (int i = 0; i < 3; i++) {
    must(waitpid(children[i], &status, WCONTINUED) == children[i]);
    say("continued %d", WIFCONTINUED(status));
  }
  must(kill(-children[0], SIGTERM) == 0);
  for (int i = 0; i < 3; i++) {
    must(waitpid(-children[0], &status, 0) > 0);
    say("%s", ended(status));
  }
}

/* A thread that has been on several CPUs still has the children that it has made. */
static void *make_and_wait(void *unused) {
  for (int i = 0; i < 40; i++) {
    pid_t child = fork();
    need(child != -1);
    if (child == 0) _exit(i);
    for (int k = 0; k < 5; k++) sleep_ms(1);
    int status = -1;
    pid_t found = i % 2 ? waitpid(child, &status, __WNOTHREAD) : waitpid(child, &status, __WNOTHREAD | WNOHANG);
    while (found == 0) sleep_ms(1), found = waitpid(child, &status, __WNOTHREAD | WNOHANG);
    if (found != child) say("round %d: %s", i, result(found));
    must(found == child && WIFEXITED(status) && WEXITSTATUS(status) == i);
  }
  return unused;
}
static atomic_int makers_are_done;
static void *move_them(void *unused) {
  while (!makers_are_done) sleep_ms(1);
  return unused;
}
CASE(children_of_one_thread) {
  pthread_t others[8];
  for (int i = 0; i < COUNT(others); i++) others[i] = start(move_them, NULL);
  pthread_t maker = start(make_and_wait, NULL);
  finish(maker);
  makers_are_done = 1;
  for (int i = 0; i < COUNT(others); i++) finish(others[i]);
  say("done");
}
