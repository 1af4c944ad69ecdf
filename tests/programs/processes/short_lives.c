/* Children that end before they have done much, and what reaches them until then. */
#include "../check.h"
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

static volatile sig_atomic_t handled;
static void note_it(int signal) { handled = signal; }

static void end_child(const char *what, pid_t child) {
  int status;
  need(child > 0 && waitpid(child, &status, 0) == child);
  say("%s: %s", what, ended(status));
}

CASE(many_in_a_row) {
  int sum = 0, status;
  for (int i = 0; i < 1000; i++) {
    pid_t child = fork();
    if (child == 0) _exit(i % 100);
    need(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    sum += WEXITSTATUS(status);
  }
  say("%d", sum);
}

static void compute_for_ever(void) {
  for (volatile unsigned long i = 0;; i++) {}
}

/* What it has for a signal: nothing, a handler, or a mask that holds it back. It makes no call. */
CASE(signals_while_it_computes) {
  for (int wait = 0; wait < 3; wait++) {
    pid_t child = fork();
    if (child == 0) compute_for_ever();
    if (wait) sleep_ms(wait * 5 - 4);
    kill(child, SIGTERM);
    end_child("default", child);

    handled = 0;
    signal(SIGUSR1, note_it);
    child = fork();
    if (child == 0) {
      while (!handled) {}
      _exit(handled == SIGUSR1 ? 5 : 6);
    }
    if (wait) sleep_ms(wait * 5 - 4);
    kill(child, SIGUSR1);
    end_child("handler", child);

    sigset_t usr2, old;
    sigemptyset(&usr2), sigaddset(&usr2, SIGUSR2);
    sigprocmask(SIG_BLOCK, &usr2, &old);
    child = fork();
    if (child == 0) {
      sigset_t pending;
      do sigpending(&pending);
      while (!sigismember(&pending, SIGUSR2));
      sigprocmask(SIG_SETMASK, &old, NULL);
      _exit(7);
    }
    if (wait) sleep_ms(wait * 5 - 4);
    kill(child, SIGUSR2);
    end_child("blocked at first", child);
    sigprocmask(SIG_SETMASK, &old, NULL);

    child = fork();
    if (child == 0) {
      kill(getpid(), SIGSTOP);
      _exit(8);
    }
    int status;
    need(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    kill(child, SIGCONT);
    end_child("stopped by itself", child);
  }
}

/* Values queue, whoever takes them. */
CASE(values_while_it_computes) {
  static volatile sig_atomic_t sum, count;
  sum = count = 0;
  struct sigaction action = {.sa_flags = SA_SIGINFO};
  action.sa_sigaction = ({
    void on_value(int signal, siginfo_t *info, void *context) {
      (void)signal, (void)context;
      sum += info->si_value.sival_int, count++;
    }
    on_value;
  });
  need(sigaction(SIGRTMIN + 1, &action, NULL) == 0);
  pid_t child = fork();
  if (child == 0) {
    while (count < 20) {}
    _exit(sum);
  }
  for (int i = 1; i <= 20; i++) need(sigqueue(child, SIGRTMIN + 1, (union sigval){.sival_int = i}) == 0);
  end_child("sum of all", child);
}

CASE(a_lock_that_it_holds) {
  pthread_mutex_t *lock = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_mutexattr_t kind;
  pthread_mutexattr_init(&kind);
  pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
  pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(lock, &kind);
  pid_t child = fork();
  if (child == 0) _exit(pthread_mutex_lock(lock));
  end_child("holder", child);
  say("next: %s", errname(pthread_mutex_lock(lock)));
}

CASE(what_it_does_first) {
  pid_t me = getpid();
  for (int what = 0; what < 8; what++) {
    pid_t child = fork();
    if (child == 0) {
      if (what == 0) _exit(getppid() == me ? 1 : 2);
      if (what == 1) _exit(getpid() == syscall(SYS_gettid) && getpid() != me ? 3 : 4);
      if (what == 2) *(volatile int *)NULL = 0;
      if (what == 3) abort();
      if (what == 4) execl("/bin/sh", "sh", "-c", "exit 9", NULL);
      if (what == 5) {
        pthread_t thread = start((void *(*)(void *))(void *)getpid, NULL);
        finish(thread);
        _exit(10);
      }
      if (what == 6) {
        pid_t grandchild = fork();
        if (grandchild == 0) _exit(11);
        int status;
        _exit(waitpid(grandchild, &status, 0) == grandchild ? WEXITSTATUS(status) : 12);
      }
      if (what == 7) sleep_ms(20);
      syscall(SYS_exit, 13);
    }
    char name[] = "child 0";
    name[6] += what;
    end_child(name, child);
  }
}

/* Registers that no call saves, after it was interrupted without a kernel of its own. */
CASE(vector_registers) {
  pid_t child = fork();
  if (child == 0) {
    double given = 2.5, found = 0;
    long left = 200 * 1000 * 1000;
    __asm__ volatile("movsd %2, %%xmm9\n\t1: sub $1, %1\n\tjnz 1b\n\tmovsd %%xmm9, %0"
                     : "=m"(found), "+r"(left) : "m"(given) : "xmm9", "cc");
    _exit(found == given ? 1 : 2);
  }
  end_child("child", child);
}

/* A transfer that takes long is whole, though the process has just begun and has one thread. */
static char megabyte[1 << 20];
static long by_write(int fd) { return write(fd, megabyte, sizeof megabyte); }
static long by_send(int fd) { return send(fd, megabyte, sizeof megabyte, 0); }
static long by_writev(int fd) {
  struct iovec halves[2] = {{megabyte, sizeof megabyte / 2}, {megabyte + sizeof megabyte / 2, sizeof megabyte / 2}};
  return writev(fd, halves, 2);
}
CASE(a_lone_writer) {
  static long (*const ways[])(int) = {by_write, by_send, by_writev};
  for (int way = 0; way < COUNT(ways); way++) {
    int ends[2], report[2];
    need((way == 1 ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)) == 0 && pipe(report) == 0);
    pid_t child = fork();
    need(child != -1);
    if (child == 0) {
      close(ends[0]);
      long sent = ways[way](ends[1]);
      _exit(write(report[1], &sent, sizeof sent) != sizeof sent);
    }
    close(ends[1]);
    static char some[4096];
    long got = 0, more, sent;
    while ((more = read(ends[0], some, sizeof some)) > 0) {
      got += more;
      usleep(50);
    }
    need(read(report[0], &sent, sizeof sent) == sizeof sent && waitpid(child, NULL, 0) == child);
    say("way %d: sent %ld, received %ld", way, sent, got);
    close(ends[0]), close(report[0]), close(report[1]);
  }
}
