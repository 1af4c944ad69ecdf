/* Processes that use their maker's memory: by vfork for a time, by clone for as long as they live. */
#include "../check.h"
#include <linux/futex.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/user.h>

static atomic_int handled, order[8];
static void note(int signal) { order[handled++ % 8] = signal; }

static const char *end_of(pid_t child) {
  int status;
  need(child > 0 && waitpid(child, &status, __WALL) == child);
  return ended(status);
}

static void handle(int signal, int flags) {
  struct sigaction action = {.sa_handler = note, .sa_flags = flags};
  need(sigaction(signal, &action, NULL) == 0);
}

/* A process that has just begun, one that others see, and one with a handler of a signal that queues. */
CASE(ended_while_it_waits_for_a_vfork_child) {
  for (int older = 0; older < 3; older++) {
    pid_t one = fork();
    if (one == 0 && older == 2) handle(SIGRTMIN + 1, 0);
    if (one == 0) {
      struct timespec begun, now;
      clock_gettime(CLOCK_MONOTONIC, &begun);
      do clock_gettime(CLOCK_MONOTONIC, &now);
      while (older && now.tv_sec * 1000 + now.tv_nsec / 1000000 < begun.tv_sec * 1000 + begun.tv_nsec / 1000000 + 20);
      if (vfork() == 0) {
        kill(getppid(), SIGTERM);
        _exit(0);
      }
      _exit(3);
    }
    say("%s", end_of(one));
  }
}

CASE(handler_runs_before_the_next_step) {
  handle(SIGUSR1, 0);
  handled = 0;
  pid_t child = vfork();
  if (child == 0) {
    kill(getpid(), SIGUSR1);
    int first = handled;
    raise(SIGUSR1);
    _exit(first * 10 + handled);
  }
  say("%s, here %d", end_of(child), handled);
}

CASE(masks_and_handlers_are_its_own) {
  handle(SIGUSR1, 0), handle(SIGUSR2, SA_RESETHAND | SA_NODEFER);
  handled = 0;
  volatile int before = -1, pending = -1, after = -1, second = -1;
  pid_t child = vfork();
  if (child == 0) {
    sigset_t set, old;
    sigemptyset(&set), sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, &old);
    kill(getpid(), SIGUSR1);
    before = handled;
    sigpending(&set), pending = sigismember(&set, SIGUSR1);
    sigsuspend(&old);
    after = handled;
    struct sigaction action;
    kill(getpid(), SIGUSR2);
    sigaction(SIGUSR2, NULL, &action);
    second = handled * 10 + (action.sa_handler == SIG_DFL);
    signal(SIGUSR1, SIG_IGN);
    _exit(3);
  }
  say("%s", end_of(child));
  say("blocked %d, pending %d, after sigsuspend %d, the other one %d", before, pending, after, second);
  struct sigaction mine;
  sigaction(SIGUSR1, NULL, &mine);
  say("here %s", mine.sa_handler == note ? "the same" : "CHANGED");
  kill(getpid(), SIGUSR1);
  say("handled %d", handled);
}

CASE(it_can_be_ended) {
  for (int how = 0; how < 2; how++) {
    signal(SIGTERM, SIG_DFL), signal(SIGALRM, SIG_DFL);
    int ends[2];
    need(pipe(ends) == 0);
    pid_t killer = fork();
    if (killer == 0) {
      pid_t target;
      need(read(ends[0], &target, sizeof target) == sizeof target);
      _exit(kill(target, SIGTERM));
    }
    pid_t child = vfork();
    if (child == 0) {
      pid_t me = getpid();
      if (how == 0) (void)!write(ends[1], &me, sizeof me);
      else setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 20000}}, NULL);
      for (;;) pause();
    }
    say("ended by %s", end_of(child));
    if (how == 1) kill(killer, SIGKILL);
    end_of(killer);
    close(ends[0]), close(ends[1]);
  }
}

CASE(calls_are_cut_or_start_over) {
  int ends[2];
  need(pipe(ends) == 0);
  for (int restart = 0; restart < 2; restart++) {
    handle(SIGALRM, restart ? SA_RESTART : 0);
    handled = 0;
    volatile long got = -2, error = 0;
    pid_t child = vfork();
    if (child == 0) {
      struct itimerval soon = {{0, 5000}, {0, 5000}}, never = {{0, 0}, {0, 0}};
      struct pollfd none = {.fd = ends[0], .events = POLLIN};
      setitimer(ITIMER_REAL, &soon, NULL);
      while (handled < 3) got = poll(&none, 1, 10000), error = errno;
      pid_t writer = fork();
      if (writer == 0) {
        usleep(40000);
        _exit(write(ends[1], "x", 1) != 1);
      }
      char byte;
      long there = read(ends[0], &byte, 1);
      setitimer(ITIMER_REAL, &never, NULL);
      if (there != 1) (void)!read(ends[0], &byte, 1);
      waitpid(writer, NULL, 0);
      _exit(there == 1 ? 1 : errno == EINTR ? 2 : 3);
    }
    say("poll %ld %s, read %s", got, errname(error), end_of(child));
  }
}

CASE(a_fault_in_it) {
  static volatile char *volatile nowhere = (char *)16;
  signal(SIGSEGV, SIG_DFL);
  pid_t child = vfork();
  if (child == 0) _exit(*nowhere);
  say("%s", end_of(child));
}

/* Such a signal may be one that somebody sends, and then a handler is all that it needs. */
CASE(signals_of_faults_are_sent) {
  static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS};
  for (int i = 0; i < COUNT(signals); i++) {
    handle(signals[i], 0);
    handled = 0;
    pid_t child = vfork();
    if (child == 0) {
      kill(getpid(), signals[i]);
      int first = handled;
      syscall(SYS_tgkill, getpid(), gettid(), signals[i]);
      int second = handled;
      sigqueue(getpid(), signals[i], (union sigval){0});
      _exit(first * 100 + second * 10 + handled);
    }
    say("%s: %s", sigabbrev_np(signals[i]), end_of(child));
    signal(signals[i], SIG_DFL);
  }
}

static void *nothing(void *unused) { return unused; }

/* The C library has a handler for 33 once there has been a thread; it leaves what others send alone. */
CASE(a_signal_of_the_library) {
  finish(start(nothing, NULL));
  pid_t child = vfork();
  if (child == 0) {
    for (int i = 0; i < 3; i++) kill(getpid(), 33);
    _exit(4);
  }
  say("%s", end_of(child));
}

CASE(borrowers_of_borrowers) {
  pid_t child = vfork();
  if (child == 0) {
    pid_t inner = vfork();
    if (inner == 0) {
      pid_t innermost = fork();
      if (innermost == 0) _exit(3);
      int status;
      waitpid(innermost, &status, 0);
      _exit(WEXITSTATUS(status) + 1);
    }
    int status;
    waitpid(inner, &status, 0);
    _exit(WEXITSTATUS(status) + 1);
  }
  say("%s", end_of(child));
  child = vfork();
  if (child == 0) {
    pid_t inner = vfork();
    if (inner == 0) execl("/bin/true", "true", NULL), _exit(9);
    int status;
    waitpid(inner, &status, 0);
    execl("/bin/sh", "sh", "-c", "exit 6", NULL);
    _exit(8);
  }
  say("%s", end_of(child));
}

/* By clone, beside its maker. */
static struct {
  _Atomic uint32_t to, from, word;
  _Alignas(64) char stack[1 << 16];
} shared;

static long futex(_Atomic uint32_t *word, int op, uint32_t value) {
  return syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}
static int answer(void *argument) {
  (void)argument;
  for (uint32_t i = 1; i <= 200; i++) {
    while (shared.to != i) futex(&shared.to, FUTEX_WAIT, i - 1);
    shared.from = i;
    futex(&shared.from, FUTEX_WAKE, 1);
  }
  shared.word = (uint32_t)getppid();
  return 5;
}
static pid_t borrow(int (*body)(void *), int flags) {
  memset(&shared, 0, sizeof shared);
  return clone(body, shared.stack + sizeof shared.stack, CLONE_VM | flags, NULL);
}
/* The other side of `answer`. */
static void talk(void) {
  for (uint32_t i = 1; i <= 200; i++) {
    shared.to = i;
    futex(&shared.to, FUTEX_WAKE, 1);
    while (shared.from != i) futex(&shared.from, FUTEX_WAIT, i - 1);
  }
}
CASE(memory_and_words_in_common) {
  pid_t child = borrow(answer, SIGCHLD);
  need(child > 0);
  talk();
  const char *end = end_of(child);
  say("%s, its parent %s", end, shared.word == (uint32_t)getpid() ? "is this one" : "ANOTHER");
}

/* While threads wait for descriptors, a CPU may sleep elsewhere than on a word. */
static void *read_a_byte(void *end) {
  char byte;
  return (void *)read(*(int *)end, &byte, 1);
}
CASE(its_wake_ups_reach_threads_beside_readers) {
  enum { READERS = 8 };
  pthread_t readers[READERS];
  int ends[2];
  need(pipe(ends) == 0);
  for (int i = 0; i < READERS; i++) readers[i] = start(read_a_byte, &ends[0]);
  pid_t child = borrow(answer, SIGCHLD);
  need(child > 0);
  talk();
  say("%s", end_of(child));
  need(close(ends[1]) == 0);
  for (int i = 0; i < READERS; i++) need(finish(readers[i]) == NULL);
  close(ends[0]);
}

/* The woken thread's CPU has no host thread, and one that the borrower made would end with it. */
static void *waits(void *argument) {
  while (shared.word == 0) futex(&shared.word, FUTEX_WAIT, 0);
  return argument;
}
static int wakes(void *argument) {
  (void)argument;
  shared.word = 1;
  futex(&shared.word, FUTEX_WAKE, 1);
  _exit(0);
}
CASE(the_only_one_that_wakes) {
  for (int round = 0; round < 6; round++) {
    shared.word = 0;
    pthread_t thread = start(waits, NULL);
    usleep(20000);
    pid_t child = round % 2 ? clone(wakes, shared.stack + sizeof shared.stack, CLONE_VM | SIGCHLD, NULL) : vfork();
    if (child == 0) wakes(NULL);
    if (strcmp(end_of(child), "status 0") != 0) say("round %d", round);
    finish(thread);
  }
  say("all are woken");
}

/* Made by a vfork child, which ends first. */
CASE(one_that_a_vfork_child_leaves_behind) {
  volatile pid_t left = 0;
  pid_t child = vfork();
  if (child == 0) {
    left = borrow(answer, CLONE_PARENT | SIGCHLD);
    _exit(left < 0);
  }
  say("%s", end_of(child));
  talk();
  say("%s", end_of(left));
}

static int own_files(void *argument) {
  (void)argument;
  return close(1) != 0 || chdir("/") != 0;
}
CASE(descriptors_of_its_own) {
  say("%s", end_of(borrow(own_files, SIGCHLD)));
  say("%s", end_of(borrow(own_files, SIGCHLD | CLONE_FS)));
}

/* A search for leaks: all threads of the maker are stopped and asked for their registers. */
static atomic_int goes_on, begun;
static pid_t tids[8];
static void *computes(void *argument) {
  int i = (int)(intptr_t)argument;
  tids[i] = gettid();
  begun++;
  register uintptr_t mark __asm__("r13") = 0x5eed0000u + i;
  while (!goes_on) __asm__ volatile("" : "+r"(mark));
  return (void *)mark;
}
static void *sleeps(void *argument) {
  int i = (int)(intptr_t)argument;
  tids[i] = gettid();
  begun++;
  register uintptr_t mark __asm__("r13") = 0x5eed0000u + i;
  while (!goes_on) {
    struct timespec ms = {0, 1000000};
    long result;
    __asm__ volatile("syscall" : "=a"(result), "+r"(mark) : "a"(SYS_nanosleep), "D"(&ms), "S"(NULL) : "rcx", "r11", "memory");
  }
  return (void *)mark;
}
static atomic_int stopped, marks, stacks, refused, still;
static int looks(void *argument) {
  (void)argument;
  for (int i = 0; i < 8; i++) {
    int status = 0;
    if (ptrace(PTRACE_ATTACH, tids[i], NULL, NULL) != 0) continue;
    if (waitpid(tids[i], &status, __WALL) == tids[i] && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP) stopped++;
    refused += ptrace(PTRACE_ATTACH, tids[i], NULL, NULL) == -1 && errno == EPERM;
  }
  for (int i = 0; i < 8; i++) {
    struct user_regs_struct regs = {0};
    ptrace(PTRACE_GETREGS, tids[i], NULL, &regs);
    marks += regs.r13 == 0x5eed0000u + i;
    errno = 0;
    ptrace(PTRACE_PEEKDATA, tids[i], (void *)regs.rsp, NULL);
    stacks += errno == 0;
  }
  for (int i = 0; i < 8; i++) still += ptrace(PTRACE_DETACH, tids[i], NULL, NULL) == 0;
  return 0;
}
CASE(threads_are_stopped_and_read) {
  pthread_t threads[8];
  begun = goes_on = 0;
  for (int i = 0; i < 8; i++) threads[i] = start(i % 4 == 0 ? computes : sleeps, (void *)(intptr_t)i);
  wait_until(begun == 8);
  for (int round = 0; round < 5; round++) {
    stopped = marks = stacks = refused = still = 0;
    const char *end = end_of(borrow(looks, CLONE_FS | CLONE_FILES | CLONE_UNTRACED));
    say("%s: stopped %d, marks %d, stacks %d, refused %d, let go %d", end, stopped, marks, stacks, refused, still);
  }
  goes_on = 1;
  int good = 0;
  for (int i = 0; i < 8; i++) good += finish(threads[i]) == (void *)(uintptr_t)(0x5eed0000u + i);
  say("good %d", good);
}

/* The C library's own signals, which a program that posix_spawn starts finds ignored. */
CASE(ignored_signals_do_not_end_it) {
  struct { void (*handler)(int); unsigned long flags; void *restorer; uint64_t mask; } ignored = {SIG_IGN, 0, NULL, 0}, before[2];
  for (int i = 0; i < 2; i++) need(syscall(SYS_rt_sigaction, 32 + i, &ignored, &before[i], 8) == 0);
  pid_t child = vfork();
  if (child == 0) {
    syscall(SYS_tgkill, getpid(), gettid(), 32);
    syscall(SYS_kill, getpid(), 33);
    _exit(4);
  }
  say("ignored: %s", end_of(child));
  for (int i = 0; i < 2; i++) need(syscall(SYS_rt_sigaction, 32 + i, &before[i], NULL, 8) == 0);
  child = vfork();
  if (child == 0) {
    syscall(SYS_tgkill, getpid(), gettid(), 32);
    _exit(4);
  }
  say("by default: signal %d", ({ int status; waitpid(child, &status, 0); WTERMSIG(status); }));
}

/* Its timer slack is its own, and its program's. */
CASE(timer_slack_goes_with_it) {
  need(prctl(PR_SET_TIMERSLACK, 66666) == 0);
  int ends[2];
  need(pipe(ends) == 0);
  for (int changes = 0; changes < 2; changes++) {
    pid_t child = vfork();
    if (child == 0) {
      if (changes) prctl(PR_SET_TIMERSLACK, 77777);
      dup2(ends[1], 1);
      execlp("sh", "sh", "-c", "read s < /proc/self/timerslack_ns; echo $s", NULL);
      _exit(1);
    }
    say("%s", end_of(child));
    char text[64];
    ssize_t n = read(ends[0], text, sizeof text - 1);
    say("slack %.*s", (int)(n > 0 ? n - 1 : 0), text);
  }
  say("here %d", prctl(PR_GET_TIMERSLACK));
  prctl(PR_SET_TIMERSLACK, 0);
}

/* A child that is killed wherever it is, also in the middle of an exec, leaves its maker nothing to wait for. */
CASE(killed_at_any_time) {
  volatile pid_t *victim = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  need(victim != MAP_FAILED);
  pid_t killer = fork();
  need(killer >= 0);
  if (killer == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    unsigned state = 1;
    for (;;) {
      pid_t pid = *victim;
      if (pid <= 0) continue;
      *victim = 0;
      for (volatile int left = rand_r(&state) % 100000; left > 0; left--) {}
      kill(pid, SIGKILL);
    }
  }
  int others = 0;
  for (int i = 0; i < 1500; i++) {
    int status;
    pid_t child = vfork();
    need(child >= 0);
    if (child == 0) {
      *victim = getpid();
      execl("/bin/true", "true", NULL);
      _exit(1);
    }
    need(waitpid(child, &status, 0) == child);
    others += status != 0 && status != SIGKILL;
  }
  need(kill(killer, SIGKILL) == 0 && waitpid(killer, NULL, 0) == killer);
  say("others: %d", others);
}
