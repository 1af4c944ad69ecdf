/* What a new process has of its maker, by the flags of clone and clone3, and what execve refuses. */
#include "../check.h"
#include <fcntl.h>
#include <linux/sched.h>
#include <sys/stat.h>
#include <sys/time.h>

static void end_child(const char *what, pid_t child) {
  int status;
  need(child > 0 && waitpid(child, &status, 0) == child);
  say("%s %s", what, ended(status));
}

static void nothing(int signal) { (void)signal; }

CASE(handlers_cleared) {
  signal(SIGUSR2, nothing), signal(SIGWINCH, SIG_IGN);
  for (int clear = 0; clear < 2; clear++) {
    struct clone_args args = {.flags = clear ? CLONE_CLEAR_SIGHAND : 0, .exit_signal = SIGCHLD};
    pid_t child = syscall(SYS_clone3, &args, sizeof args);
    if (child == 0) {
      struct sigaction usr2, winch;
      sigaction(SIGUSR2, NULL, &usr2), sigaction(SIGWINCH, NULL, &winch);
      _exit((usr2.sa_handler == SIG_DFL) + 2 * (winch.sa_handler == SIG_IGN));
    }
    end_child(clear ? "cleared" : "kept", child);
  }
  struct clone_args both = {.flags = CLONE_CLEAR_SIGHAND | CLONE_SIGHAND | CLONE_VM, .exit_signal = SIGCHLD};
  say("cleared and shared %s", result(syscall(SYS_clone3, &both, sizeof both)));
}

CASE(a_sibling) {
  pid_t me = getpid(), child = fork();
  if (child == 0) {
    long sibling = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
    if (sibling == 0) _exit(getppid() == me ? 7 : 3);
    _exit(sibling > 0 ? 4 : 5);
  }
  int status, ends[10] = {0};
  for (int i = 0; i < 2; i++) {
    need(waitpid(-1, &status, 0) > 0 && WIFEXITED(status));
    ends[WEXITSTATUS(status) % 10]++;
  }
  say("sibling %d, its maker %d", ends[7], ends[4]);
  struct clone_args args = {.flags = CLONE_PARENT, .exit_signal = SIGCHLD};
  say("clone3 with a signal %s", result(syscall(SYS_clone3, &args, sizeof args)));
}

/* An id that was free a moment ago: given to whom may choose. */
CASE(chosen_id) {
  pid_t chosen = fork();
  if (chosen == 0) _exit(0);
  need(waitpid(chosen, NULL, 0) == chosen);
  struct clone_args args = {.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&chosen, .set_tid_size = 1};
  long child = syscall(SYS_clone3, &args, sizeof args);
  if (child == 0) _exit(7);
  say("id %s", child == chosen ? "as chosen" : result(child));
  if (child > 0) end_child("it", child);
  args.set_tid_size = 0;
  say("no length %s", result(syscall(SYS_clone3, &args, sizeof args)));
  args.set_tid = 0, args.set_tid_size = 1;
  say("no ids %s", result(syscall(SYS_clone3, &args, sizeof args)));
}

/* A stack must lie where programs can have one. */
CASE(stacks_that_are_none) {
  static const uint64_t stacks[][2] = {
      {0xffff800000000000, 4096}, {0x7ffffffff000, 4096}, {0x7fffffffe000, 4096}, {0x10000, UINT64_C(1) << 60}, {0x10000, UINT64_MAX}, {0, 4096}, {0x10000, 0},
  };
  for (int threads = 0; threads < 2; threads++)
    for (int i = 0; i < COUNT(stacks); i++) {
      /* The last flag makes those fail that are right. */
      uint64_t of_thread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
      struct clone_args args = {.flags = (threads ? of_thread : 0) | CLONE_SETTLS, .tls = UINT64_MAX, .stack = stacks[i][0], .stack_size = stacks[i][1]};
      say("%d %d: %s", threads, i, result(syscall(SYS_clone3, &args, sizeof args)));
    }
}

/* Numbers that tell the parent nothing. */
CASE(no_signal_at_the_end) {
  static const int numbers[] = {0, 65, 127, 255};
  for (int i = 0; i < COUNT(numbers); i++) {
    long child = syscall(SYS_clone, numbers[i], 0, 0, 0, 0);
    if (child == 0) _exit(7);
    need(child > 0);
    int status = 0;
    say("%d: waitpid %s", numbers[i], result(waitpid(child, &status, 0)));
    need(waitpid(child, &status, __WALL) == child);
    say("%d: %s", numbers[i], ended(status));
  }
}

/* What a process without other threads shares with nobody. */
static const int of_threads[] = {0, CLONE_THREAD, CLONE_SIGHAND, CLONE_VM, CLONE_THREAD | CLONE_SIGHAND | CLONE_VM,
                                 CLONE_THREAD | CLONE_FS, CLONE_PARENT, CLONE_VFORK};
static void unshare_all(const char *with) {
  for (int i = 1; i < COUNT(of_threads); i++) {
    if (i != 5 || !strcmp(with, "alone")) say("%s, %#x: %s", with, of_threads[i], result(unshare(of_threads[i])));
  }
}
static void *beside(void *tid) {
  *(_Atomic pid_t *)tid = gettid();
  say("beside another, nothing: %s", result(unshare(0)));
  unshare_all("beside another");
  return NULL;
}
CASE(nothing_to_unshare) {
  static _Atomic pid_t tid;
  unshare_all("alone");
  finish(start(beside, (void *)&tid));
  /* Who is joined has left its stack, and leaves the process a moment later. */
  wait_until(tgkill(getpid(), tid, 0) == -1 && errno == ESRCH);
  unshare_all("alone");
}

/* By an instruction of the program's own, with vectors that nobody has saved. */
CASE(vector_registers) {
  double given[2] = {3.25, -7.5}, found[2] = {0};
  long child;
  __asm__ volatile("movsd %3, %%xmm5\n\tmovsd %4, %%xmm15\n\tmov $57, %%eax\n\tsyscall\n\t"
                   "movsd %%xmm5, %1\n\tmovsd %%xmm15, %2"
                   : "=&a"(child), "=m"(found[0]), "=m"(found[1])
                   : "m"(given[0]), "m"(given[1])
                   : "rcx", "r11", "memory", "xmm5", "xmm15");
  bool same = found[0] == given[0] && found[1] == given[1];
  if (child == 0) _exit(same ? 7 : 8);
  say("parent %s", same ? "the same" : "OTHERS");
  end_child("child", child);
}

CASE(no_program) {
  char path[] = "/tmp/variants-XXXXXX";
  need(mkdtemp(path) && chdir(path) == 0);
  need(mkfifo("fifo", 0755) == 0 && mkdir("folder", 0755) == 0);
  execl("fifo", "fifo", NULL);
  say("FIFO %s", errname(errno));
  execl("folder", "folder", NULL);
  say("folder %s", errname(errno));
  execl("/dev/null", "null", NULL);
  say("device %s", errname(errno));
  int fd = open("fifo", O_RDWR);
  syscall(SYS_execveat, fd, "", (char *[]){"fifo", NULL}, NULL, AT_EMPTY_PATH);
  say("open FIFO %s", errname(errno));
  need(close(fd) == 0 && unlink("fifo") == 0 && rmdir("folder") == 0 && chdir("/") == 0 && rmdir(path) == 0);
}

/* Signals with a handler that arrive while a call fails, from a timer, from a child, and of three kinds at once. */
static atomic_int arrived[3];
static void count(int signal) { arrived[signal == SIGALRM ? 0 : signal == SIGUSR1 ? 1 : 2]++; }
static void *try_programs(void *enough) {
  while (!*(atomic_int *)enough) execl("/etc/hostname", "hostname", NULL), execl("/nonexistent", "nothing", NULL);
  return NULL;
}
CASE(signals_while_it_fails) {
  struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL), sigaction(SIGUSR1, &action, NULL), sigaction(SIGRTMIN, &action, NULL);
  struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
  pid_t me = getpid(), child = fork();
  if (child == 0) {
    union sigval value = {.sival_int = 1};
    for (int i = 0; i < 200; i++) {
      kill(me, SIGUSR1);
      need(sigqueue(me, SIGRTMIN, value) == 0);
      nanosleep(&(struct timespec){0, 100000}, NULL);
    }
    _exit(0);
  }
  atomic_int enough = 0;
  pthread_t thread = start(try_programs, &enough);
  setitimer(ITIMER_REAL, &often, NULL);
  while (arrived[0] < 50 || arrived[1] < 1 || arrived[2] < 200) execl("/etc/hostname", "hostname", NULL);
  setitimer(ITIMER_REAL, &never, NULL);
  enough = 1;
  finish(thread);
  end_child("sender", child);
  say("queued signals %d", arrived[2]);
}
