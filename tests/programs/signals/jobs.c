//@ libs: -lutil
//@ seconds: 120
/* Job control: a shell on a pseudo-terminal of its own, and jobs of several threads that it stops, continues,
 * moves to the front and to the back, as setpgid(2), tcsetpgrp(3) and termios(3) say. */
#include "../check.h"
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>

/* What shell and job know of each other. */
struct shared {
  atomic_int ready, told, handled;
  atomic_ulong turns[4];
};
static struct shared *shared;

/* The terminal's other end. */
static int master = -1;

static void nap(void) { sleep_ms(5); }

/* How waitpid found a child. */
static const char *state(pid_t child, int options) {
  static char text[64];
  int status;
  if (waitpid(child, &status, options) != child) snprintf(text, sizeof text, "%s", result(-1));
  else if (WIFSTOPPED(status)) snprintf(text, sizeof text, "stopped by %s", sigabbrev_np(WSTOPSIG(status)));
  else if (WIFCONTINUED(status)) snprintf(text, sizeof text, "continued");
  else snprintf(text, sizeof text, "%s", ended(status));
  return text;
}

static void *spin(void *place) {
  for (;;) atomic_fetch_add((atomic_ulong *)place, 1);
  return NULL;
}
static atomic_int asleep;
static void *sleep_long(void *unused) {
  for (asleep = 1;;) sleep_ms(100000);
  return unused;
}
static void *wait_long(void *unused) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
  pthread_mutex_lock(&mutex);
  for (;;) pthread_cond_wait(&never, &mutex);
  return unused;
}

static void at_front(pid_t group) {
  sigset_t set, old;
  sigemptyset(&set);
  sigaddset(&set, SIGTTOU);
  need(sigprocmask(SIG_BLOCK, &set, &old) == 0);
  must(tcsetpgrp(0, group) == 0);
  need(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
}

/* Starts a job in a process group of its own, in front or not, and waits until it says that it is ready. */
static pid_t job(void (*body)(void), bool front) {
  atomic_store(&shared->ready, 0);
  pid_t child = fork();
  need(child != -1);
  if (child == 0) {
    setpgid(0, 0);
    while (front && tcgetpgrp(0) != getpid()) nap();
    body();
    _exit(0);
  }
  setpgid(child, child);
  if (front) at_front(child);
  while (!atomic_load(&shared->ready)) nap();
  return child;
}

static void type(const char *keys) { must(write(master, keys, strlen(keys)) == (ssize_t)strlen(keys)); }

static void end(pid_t child) {
  kill(child, SIGKILL);
  say("at last: %s", state(child, 0));
  at_front(getpgrp());
}

/* A shell in a session of its own, whose terminal is at `master`: the whole case runs in it. */
static void in_shell(void (*body)(void)) {
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  need(shared != MAP_FAILED);
  int slave;
  need(openpty(&master, &slave, NULL, NULL, NULL) == 0);
  struct termios modes;
  need(tcgetattr(slave, &modes) == 0);
  modes.c_lflag &= ~(tcflag_t)(ECHO | ECHOCTL);
  need(tcsetattr(slave, TCSANOW, &modes) == 0);
  pid_t shell = fork();
  need(shell != -1);
  if (shell == 0) {
    setsid();
    need(ioctl(slave, TIOCSCTTY, 0) == 0 && dup2(slave, 0) == 0);
    /* Who started the tests in the background may have had these ignored. */
    signal(SIGINT, SIG_DFL), signal(SIGQUIT, SIG_DFL);
    body();
    _exit(atomic_load(&check_failed));
  }
  close(slave);
  int status;
  need(waitpid(shell, &status, 0) == shell);
  say("shell: %s", ended(status));
  if (!WIFEXITED(status) || WEXITSTATUS(status)) atomic_store(&check_failed, 1);
  close(master);
  munmap(shared, sizeof *shared);
}

/* Threads that compute, sleep and wait. */
static void many(void) {
  for (int i = 0; i < 3; i++) start(spin, &shared->turns[i]);
  start(sleep_long, NULL);
  start(wait_long, NULL);
  atomic_store(&shared->ready, 1);
  spin(&shared->turns[3]);
}

static bool goes_on(void) {
  unsigned long before[4];
  for (int i = 0; i < 4; i++) before[i] = atomic_load(&shared->turns[i]);
  for (int round = 0; round < 400; round++) {
    nap();
    int moved = 0;
    for (int i = 0; i < 4; i++) moved += atomic_load(&shared->turns[i]) != before[i];
    if (moved == 4) return true;
  }
  return false;
}
static bool stands(void) {
  unsigned long before[4], after[4];
  for (int i = 0; i < 4; i++) before[i] = atomic_load(&shared->turns[i]);
  settle();
  for (int i = 0; i < 4; i++) after[i] = atomic_load(&shared->turns[i]);
  return memcmp(before, after, sizeof before) == 0;
}

static void keys(void) {
  pid_t child = job(many, true);
  must(goes_on());
  type("\x1a");
  say("Ctrl-Z: %s", state(child, WUNTRACED));
  at_front(getpgrp());
  must(stands());
  kill(-child, SIGCONT);
  say("bg: %s", state(child, WCONTINUED));
  must(goes_on());
  kill(child, SIGSTOP);
  say("from outside: %s", state(child, WUNTRACED));
  must(stands());
  at_front(child);
  kill(-child, SIGCONT);
  say("fg: %s", state(child, WCONTINUED));
  must(goes_on());
  type("\x1a");
  say("again: %s", state(child, WUNTRACED));
  kill(-child, SIGCONT);
  say("again: %s", state(child, WCONTINUED));
  type("\x03");
  say("Ctrl-C: %s", state(child, WUNTRACED | WCONTINUED));
  child = job(many, true);
  type("\x1c");
  int status;
  must(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  say("Ctrl-\\: %s", ended(status));
}
CASE(keys_stop_and_end) { in_shell(keys); }

static void count(int signal) {
  (void)signal;
  atomic_fetch_add(&shared->handled, 1);
}
static void handle(int signal, void (*handler)(int), int flags) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
  need(sigaction(signal, &action, NULL) == 0);
}

/* The handler that programs with a screen of their own have. */
static void suspend(int signal) {
  int saved = errno;
  atomic_fetch_add(&shared->told, 1);
  handle(signal, SIG_DFL, 0);
  raise(signal);
  sigset_t set, old;
  sigemptyset(&set);
  sigaddset(&set, signal);
  need(sigprocmask(SIG_UNBLOCK, &set, &old) == 0);
  /* Stopped here. */
  need(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
  handle(signal, suspend, 0);
  atomic_fetch_add(&shared->handled, 1);
  errno = saved;
}
static void with_screen(void) {
  handle(SIGTSTP, suspend, 0);
  many();
}
static void reraise(void) {
  pid_t child = job(with_screen, true);
  for (int i = 0; i < 3; i++) {
    type("\x1a");
    say("Ctrl-Z: %s", state(child, WUNTRACED));
    say("told %d, handled %d", shared->told, shared->handled);
    must(stands());
    kill(-child, SIGCONT);
    say("fg: %s", state(child, WCONTINUED));
    while (atomic_load(&shared->handled) == i) nap();
    must(goes_on());
  }
  end(child);
}
CASE(handler_raises_it_again) { in_shell(reraise); }

static void counted(void) {
  handle(SIGCONT, count, 0);
  handle(SIGINT, count, 0);
  many();
}
static void handlers(void) {
  pid_t child = job(counted, true);
  type("\x03");
  while (atomic_load(&shared->handled) != 1) nap();
  kill(child, SIGCONT);
  while (atomic_load(&shared->handled) != 2) nap();
  kill(child, SIGSTOP);
  say("%s", state(child, WUNTRACED));
  kill(child, SIGINT);
  must(stands());
  say("while stopped: %d", shared->handled);
  kill(child, SIGCONT);
  while (atomic_load(&shared->handled) != 4) nap();
  say("%s", state(child, WCONTINUED));
  end(child);
}
CASE(handlers_of_the_job) { in_shell(handlers); }

/* What a job does to its terminal, and what comes of it. */
static int flavour;
enum { PLAIN, IGNORED, BLOCKED, HANDLED, HANDLED_RESTART, FLAVOURS };
static const char *const flavours[] = {"default", "ignored", "blocked", "handled", "handled, restart"};

static int stop_signal;
static void prepare(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, stop_signal);
  if (flavour == IGNORED) handle(stop_signal, SIG_IGN, 0);
  if (flavour == BLOCKED) need(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
  if (flavour >= HANDLED) handle(stop_signal, count, flavour == HANDLED_RESTART ? SA_RESTART : 0);
  /* A thread that begins takes what is pending when its mask is opened. */
  start(sleep_long, NULL);
  while (!asleep) nap();
  atomic_store(&shared->ready, 1);
}
/* Until the shell has seen what it waits for. */
static void stay(void) {
  while (!atomic_load(&shared->told)) nap();
}
static void read_line(void) {
  prepare();
  char line[64] = "";
  ssize_t got = read(0, line, sizeof line - 1);
  int error = errno;
  stay();
  errno = error;
  say("%s: read %s %.*s", flavours[flavour], result(got), got > 0 ? (int)got - 1 : 0, line);
}
static void read_vector(void) {
  prepare();
  char line[64] = "";
  struct iovec {
    void *base;
    size_t len;
  } part = {line, sizeof line - 1};
  ssize_t got = syscall(SYS_readv, 0, &part, 1);
  int error = errno;
  stay();
  errno = error;
  say("%s: readv %s %.*s", flavours[flavour], result(got), got > 0 ? (int)got - 1 : 0, line);
}
static void write_line(void) {
  prepare();
  const char *answer = result(write(0, "text\n", 5));
  stay();
  say("%s: write %s", flavours[flavour], answer);
}
static void take_front(void) {
  prepare();
  const char *answer = result(tcsetpgrp(0, getpgrp()));
  stay();
  say("%s: tcsetpgrp %s", flavours[flavour], answer);
}
static void set_modes(void) {
  prepare();
  struct termios modes;
  need(tcgetattr(0, &modes) == 0);
  const char *answer = result(tcsetattr(0, TCSADRAIN, &modes));
  stay();
  say("%s: tcsetattr %s", flavours[flavour], answer);
  say("%s: tcflush %s", flavours[flavour], result(tcflush(0, TCIFLUSH)));
}

/* Runs it in the back; stopped, it is brought to the front. */
static void in_back(void (*body)(void), int signal, const char *answer) {
  stop_signal = signal;
  for (flavour = PLAIN; flavour < FLAVOURS; flavour++) {
    atomic_store(&shared->handled, 0);
    atomic_store(&shared->told, flavour != PLAIN);
    pid_t child = job(body, false);
    /* A handler with SA_RESTART is called again and again. */
    if (flavour == HANDLED_RESTART) {
      while (atomic_load(&shared->handled) < 3) nap();
      at_front(child);
      if (answer) type(answer);
    }
    int status;
    need(waitpid(child, &status, WUNTRACED) == child);
    if (WIFSTOPPED(status)) {
      say("%s: stopped by %s", flavours[flavour], sigabbrev_np(WSTOPSIG(status)));
      at_front(child);
      if (answer) type(answer);
      kill(-child, SIGCONT);
      say("%s: %s", flavours[flavour], state(child, WCONTINUED));
      atomic_store(&shared->told, 1);
      need(waitpid(child, &status, WUNTRACED) == child);
    }
    say("%s: %s, handled %s", flavours[flavour], ended(status),
        shared->handled == 0 ? "never" : shared->handled == 1 ? "once" : "often");
    at_front(getpgrp());
    tcflush(0, TCIFLUSH);
  }
}
static void back_reads(void) { in_back(read_line, SIGTTIN, "line\n"); }
CASE(background_read) { in_shell(back_reads); }
static void back_reads_vector(void) { in_back(read_vector, SIGTTIN, "line\n"); }
CASE(background_readv) { in_shell(back_reads_vector); }
static void back_writes_freely(void) {
  stop_signal = SIGTTOU;
  flavour = PLAIN;
  atomic_store(&shared->told, 1);
  pid_t child = job(write_line, false);
  say("%s", state(child, WUNTRACED));
}
CASE(background_write) { in_shell(back_writes_freely); }
static void back_writes(void) {
  struct termios modes;
  need(tcgetattr(0, &modes) == 0);
  modes.c_lflag |= TOSTOP;
  need(tcsetattr(0, TCSANOW, &modes) == 0);
  in_back(write_line, SIGTTOU, NULL);
}
CASE(background_write_tostop) { in_shell(back_writes); }
static void back_takes(void) { in_back(take_front, SIGTTOU, NULL); }
CASE(background_tcsetpgrp) { in_shell(back_takes); }
static void back_sets(void) { in_back(set_modes, SIGTTOU, NULL); }
CASE(background_tcsetattr) { in_shell(back_sets); }

/* A process group whose parents are gone or in other sessions is not stopped by the terminal. The parent is gone
 * when the shell has waited for it: children of a parent with threads have another one before the last of these
 * threads has ended, and until then their group is no orphan (`will_become_orphaned_pgrp`). */
static void orphan(void) {
  int answers[2];
  need(pipe(answers) == 0);
  atomic_store(&shared->told, 0);
  pid_t between = fork();
  need(between != -1);
  if (between == 0) {
    setpgid(0, 0);
    if (fork() == 0) {
      while (getppid() == between || !atomic_load(&shared->told)) nap();
      char byte;
      start(sleep_long, NULL);
      say("read %s", result(read(0, &byte, 1)));
      say("tcsetpgrp %s", result(tcsetpgrp(0, getpgrp())));
      raise(SIGTSTP);
      raise(SIGTTIN);
      raise(SIGTTOU);
      kill(getpid(), SIGTSTP);
      say("not stopped");
      must(write(answers[1], "x", 1) == 1);
      _exit(0);
    }
    _exit(0);
  }
  need(waitpid(between, NULL, 0) == between);
  atomic_store(&shared->told, 1);
  char byte;
  must(read(answers[0], &byte, 1) == 1);
}
CASE(orphaned_group) { in_shell(orphan); }

static void stopped_orphans(void) {
  atomic_store(&shared->ready, 0);
  pid_t between = fork();
  need(between != -1);
  if (between == 0) {
    setpgid(0, 0);
    pid_t child = fork();
    if (child == 0) {
      handle(SIGHUP, count, 0);
      handle(SIGCONT, count, 0);
      start(sleep_long, NULL);
      atomic_store(&shared->ready, 1);
      while (atomic_load(&shared->handled) != 2) nap();
      atomic_store(&shared->told, 1);
      _exit(0);
    }
    while (!atomic_load(&shared->ready)) nap();
    kill(child, SIGTSTP);
    say("%s", state(child, WUNTRACED));
    _exit(0);
  }
  need(waitpid(between, NULL, 0) == between);
  while (!atomic_load(&shared->told)) nap();
  say("told SIGHUP and SIGCONT");
}
CASE(orphaned_when_stopped) { in_shell(stopped_orphans); }

/* Stop signals and SIGCONT cancel each other while they are blocked. */
CASE(cancel_each_other) {
  sigset_t all, old, pending;
  sigemptyset(&all);
  sigaddset(&all, SIGTSTP);
  sigaddset(&all, SIGTTIN);
  sigaddset(&all, SIGCONT);
  need(sigprocmask(SIG_BLOCK, &all, &old) == 0);
  handle(SIGCONT, SIG_DFL, 0);
  const int order[] = {SIGTSTP, SIGTTIN, SIGCONT, SIGTSTP};
  for (int i = 0; i < COUNT(order); i++) {
    kill(getpid(), order[i]);
    settle();
    need(sigpending(&pending) == 0);
    say("after %s: TSTP %d TTIN %d CONT %d", sigabbrev_np(order[i]), sigismember(&pending, SIGTSTP),
        sigismember(&pending, SIGTTIN), sigismember(&pending, SIGCONT));
  }
  kill(getpid(), SIGCONT);
  need(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
  say("not stopped");
}

/* What the parent is told of it by SIGCHLD. */
static atomic_int last_code, last_status;
static void child_changed(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  last_status = info->si_status;
  last_code = info->si_code;
}
static void told(void) {
  struct sigaction action = {.sa_sigaction = child_changed, .sa_flags = SA_SIGINFO};
  need(sigaction(SIGCHLD, &action, NULL) == 0);
  pid_t child = job(many, false);
  const int order[] = {SIGTSTP, SIGCONT, SIGSTOP, SIGCONT, SIGTTOU, SIGCONT, SIGTERM};
  for (int i = 0; i < COUNT(order); i++) {
    last_code = 0;
    kill(child, order[i]);
    while (last_code == 0) nap();
    say("%s: code %d status %d", sigabbrev_np(order[i]), last_code, last_status);
  }
  say("%s", state(child, 0));
  action.sa_flags |= SA_NOCLDSTOP;
  need(sigaction(SIGCHLD, &action, NULL) == 0);
  child = job(many, false);
  last_code = 0;
  kill(child, SIGSTOP);
  siginfo_t info;
  need(waitid(P_PID, (id_t)child, &info, WSTOPPED) == 0);
  say("waitid: code %d status %d", info.si_code, info.si_status);
  kill(child, SIGCONT);
  need(waitid(P_PID, (id_t)child, &info, WCONTINUED) == 0);
  say("waitid: code %d status %d, told %d", info.si_code, info.si_status, last_code);
  end(child);
}
CASE(parent_is_told) { in_shell(told); }

/* A stop and a continue close behind it: the last one counts. */
static void answer_pings(void) {
  start(spin, &shared->turns[0]);
  atomic_store(&shared->ready, 1);
  for (;;) {
    while (!atomic_load(&shared->told)) sched_yield();
    atomic_store(&shared->told, 0);
  }
}
static void close_behind(void) {
  pid_t child = job(answer_pings, false);
  unsigned seed = 1;
  for (int round = 0; round < 300; round++) {
    kill(child, SIGTSTP);
    seed = seed * 1103515245 + 12345;
    int64_t until = now_ns(CLOCK_MONOTONIC) + (seed >> 16) % 300000;
    while (now_ns(CLOCK_MONOTONIC) < until) {}
    kill(child, SIGCONT);
    atomic_store(&shared->told, 1);
    while (atomic_load(&shared->told)) sched_yield();
  }
  say("went on every time");
  end(child);
}
CASE(continued_at_once) { in_shell(close_behind); }

/* The terminal goes away: the shell is told, and stops nothing. */
CASE(hang_up) {
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  need(shared != MAP_FAILED);
  int here, there;
  need(openpty(&here, &there, NULL, NULL, NULL) == 0);
  pid_t shell = fork();
  need(shell != -1);
  if (shell == 0) {
    close(here);
    setsid();
    need(ioctl(there, TIOCSCTTY, 0) == 0);
    many();
  }
  close(there);
  while (!atomic_load(&shared->ready)) nap();
  close(here);
  say("%s", state(shell, WUNTRACED));
}
