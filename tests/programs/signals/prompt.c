//@ libs: -lrt
/* Signals that a call causes or tells of: when the call returns, the handler has run. */
#include "../check.h"
#include <fcntl.h>
#include <mqueue.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

#define TIMES 60

static volatile sig_atomic_t handled;
static volatile pid_t handled_by;
static siginfo_t told;
static void note(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  told = *info;
  handled_by = gettid();
  handled++;
}
/* Without SA_RESTART: a wait that fails with EINTR shows. */
static void handle(int signal) {
  struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
  need(sigaction(signal, &action, NULL) == 0);
  handled = 0;
}
static void mask(int how, int signal) {
  sigset_t set;
  sigemptyset(&set), sigaddset(&set, signal);
  need(sigprocmask(how, &set, NULL) == 0);
}

static int late;
/* Makes the call many times: how often was there no signal when it had returned? */
#define EACH(what, call)                                                                                       \
  do {                                                                                                         \
    late = 0;                                                                                                  \
    for (int i = 0; i < TIMES; i++) {                                                                          \
      int before = handled;                                                                                    \
      need((call) >= 0);                                                                                       \
      late += handled != before + 1;                                                                           \
      while (handled == before) sched_yield();                                                                 \
    }                                                                                                          \
    say("%s: late %d", what, late);                                                                            \
  } while (0)

static pid_t child(int status, void (*first)(void)) {
  pid_t pid = fork();
  need(pid >= 0);
  if (pid == 0) {
    if (first) first();
    _exit(status);
  }
  return pid;
}

CASE(child) {
  handle(SIGCHLD);
  int status;
  siginfo_t info;
  EACH("wait4", waitpid(child(3, NULL), &status, 0));
  EACH("waitid", waitid(P_PID, child(3, NULL), &info, WEXITED));
  pid_t pid = 0;
  EACH("not reaped", ({
         if (pid) need(waitpid(pid, NULL, 0) == pid);
         waitid(P_PID, pid = child(4, NULL), &info, WEXITED | WNOWAIT);
       }));
  need(waitpid(pid, NULL, 0) == pid);
  int tried;
  EACH("not waiting", ({
         pid = child(5, NULL);
         while ((tried = waitpid(pid, &status, WNOHANG)) == 0);
         tried;
       }));
  say("code %d, status %d, of the child %d", told.si_code, told.si_status, told.si_pid == pid);
}

/* The first wait of a process: with a handler for a signal that queues, that is when it gets a thread of ours that receives
 * signals, and one that came a moment before is as prompt as others. */
static volatile int lag;
static void wait_first(void) {
  handle(SIGCHLD);
  handle(SIGRTMIN + 6);
  pid_t pid = child(0, NULL);
  for (volatile int i = 0; i < lag; i++) {}
  siginfo_t info;
  while (waitid(P_PID, pid, &info, WEXITED | WNOWAIT) == -1) need(errno == EINTR);
  _exit(handled == 0);
}
CASE(the_first_wait) {
  int too_late = 0, status;
  for (int i = 0; i < 300; i++) {
    lag = i * 200;
    need(waitpid(child(0, wait_first), &status, 0) > 0);
    too_late += status != 0;
  }
  say("late %d", too_late);
}

/* What comes out of band: the owner of the other end has SIGURG before it is sent. */
CASE(urgent) {
  int ends[2];
  need(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  int client = ends[0], server = ends[1];
  handle(SIGURG);
  need(fcntl(server, F_SETOWN, getpid()) == 0);
  char byte;
  EACH("send", ({
         if (handled) need(recv(server, &byte, 1, MSG_OOB) == 1);
         send(client, "u", 1, MSG_OOB);
       }));
  struct iovec part = {.iov_base = "u", .iov_len = 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  EACH("sendmsg", ({
         need(recv(server, &byte, 1, MSG_OOB) == 1);
         sendmsg(client, &message, MSG_OOB);
       }));
}

CASE(blocked_child) {
  handle(SIGCHLD);
  mask(SIG_BLOCK, SIGCHLD);
  sigset_t set, pending;
  sigemptyset(&set), sigaddset(&set, SIGCHLD);
  struct timespec none = {0};
  int missed = 0, not_taken = 0;
  for (int i = 0; i < TIMES; i++) {
    pid_t pid = child(6, NULL);
    need(waitpid(pid, NULL, 0) == pid && sigpending(&pending) == 0);
    missed += !sigismember(&pending, SIGCHLD);
    siginfo_t info;
    not_taken += sigtimedwait(&set, &info, &none) != SIGCHLD || info.si_pid != pid;
  }
  mask(SIG_UNBLOCK, SIGCHLD);
  say("missed %d, not taken %d, handled %d", missed, not_taken, handled);
}

/* It was sent before the child ended, so it is there before that is told. */
static void tell_parent(void) { kill(getppid(), SIGUSR1); }
static void tell_parent_queued(void) { sigqueue(getppid(), SIGRTMIN + 1, (union sigval){.sival_int = 7}); }
CASE(sent_by_a_child) {
  struct sigaction restart = {.sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_RESTART};
  need(sigaction(SIGUSR1, &restart, NULL) == 0 && sigaction(SIGRTMIN + 1, &restart, NULL) == 0);
  need(signal(SIGCHLD, SIG_DFL) != SIG_ERR);
  EACH("kill", waitpid(child(0, tell_parent), NULL, 0));
  EACH("sigqueue", waitpid(child(0, tell_parent_queued), NULL, 0));
}

CASE(own_group) {
  pid_t pid = fork();
  need(pid >= 0);
  if (pid == 0) {
    need(setpgid(0, 0) == 0);
    int self = syscall(SYS_pidfd_open, getpid(), 0), folder = open("/proc/self", O_DIRECTORY);
    need(self >= 0 && folder >= 0);
    for (int queued = 0; queued < 2; queued++) {
      int signal = queued ? SIGRTMIN + 2 : SIGUSR2;
      handle(signal);
      EACH("kill 0", kill(0, signal));
      EACH("kill -group", kill(-getpid(), signal));
      EACH("pidfd", syscall(SYS_pidfd_send_signal, self, signal, NULL, 0));
      EACH("folder", syscall(SYS_pidfd_send_signal, folder, signal, NULL, 0));
    }
    _exit(0);
  }
  need(waitpid(pid, NULL, 0) == pid);
}

/* Writes that make a descriptor send, in this process and in one that inherited it. */
static void write_to_pipe(int pipe[2], const char *what) {
  char byte;
  need(fcntl(pipe[0], F_SETOWN, getpid()) == 0);
  EACH(what, write(pipe[1], "x", 1) == 1 && read(pipe[0], &byte, 1) == 1 ? 0 : -1);
}
CASE(descriptor) {
  handle(SIGIO);
  int pair[2], on = 1;
  need(pipe(pair) == 0 && fcntl(pair[0], F_SETFL, O_ASYNC | O_NONBLOCK) == 0);
  write_to_pipe(pair, "pipe");
  pid_t pid = fork();
  need(pid >= 0);
  if (pid == 0) {
    write_to_pipe(pair, "inherited");
    _exit(0);
  }
  need(waitpid(pid, NULL, 0) == pid);
  need(fcntl(pair[0], F_SETFL, O_NONBLOCK) == 0 && ioctl(pair[0], FIOASYNC, &on) == 0);
  write_to_pipe(pair, "ioctl");
}

/* A child is one of the group that its parent has named, with threads and without. A new thread opens its mask, and takes a
 * signal that the process has just then, natively too: the case begins after that. */
static void *stay(void *begun) {
  pthread_barrier_wait(begun);
  pause();
  return NULL;
}
CASE(descriptor_of_a_group) {
  int pair[2], status;
  char byte;
  pid_t pid = fork();
  need(pid >= 0);
  if (pid == 0) {
    need(setpgid(0, 0) == 0 && pipe(pair) == 0 && fcntl(pair[0], F_SETFL, O_ASYNC | O_NONBLOCK) == 0);
    need(fcntl(pair[0], F_SETOWN, -getpid()) == 0 && signal(SIGIO, SIG_IGN) != SIG_ERR);
    for (int threads = 0; threads < 2; threads++) {
      pid_t grandchild = fork();
      need(grandchild >= 0);
      if (grandchild == 0) {
        handle(SIGIO);
        if (threads) {
          static pthread_barrier_t begun;
          need(pthread_barrier_init(&begun, NULL, 2) == 0);
          start(stay, &begun), pthread_barrier_wait(&begun);
        }
        EACH(threads ? "threads" : "alone", write(pair[1], "x", 1) == 1 && read(pair[0], &byte, 1) == 1 ? 0 : -1);
        _exit(0);
      }
      need(waitpid(grandchild, &status, 0) == grandchild && status == 0);
    }
    _exit(0);
  }
  need(waitpid(pid, &status, 0) == pid && status == 0);
}

CASE(folder) {
  char name[] = "/tmp/prompt-XXXXXX", one[64], two[64];
  need(mkdtemp(name) != NULL);
  snprintf(one, sizeof one, "%s/one", name), snprintf(two, sizeof two, "%s/two", name);
  need(mkdir(one, 0700) == 0);
  handle(SIGRTMIN + 3);
  int folder = open(name, O_RDONLY);
  need(fcntl(folder, F_SETSIG, SIGRTMIN + 3) == 0 && fcntl(folder, F_NOTIFY, DN_RENAME | DN_MULTISHOT) == 0);
  EACH("rename", rename(i & 1 ? two : one, i & 1 ? one : two));
  rmdir(one), rmdir(name);
}

CASE(queue) {
  char name[64], byte[8];
  snprintf(name, sizeof name, "/prompt%d", getpid());
  struct mq_attr attr = {.mq_maxmsg = 4, .mq_msgsize = 8};
  mqd_t queue = mq_open(name, O_CREAT | O_RDWR | O_NONBLOCK, 0600, &attr);
  need(queue != (mqd_t)-1 && mq_unlink(name) == 0);
  handle(SIGUSR1);
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
  EACH("send", ({
         mq_receive(queue, byte, 8, NULL);
         need(mq_notify(queue, &event) == 0);
         mq_send(queue, "x", 1, 1);
       }));
}

/* While a program is executed, signals are left for it to find; if that fails they are the old one's again. */
CASE(after_an_exec_that_failed) {
  pthread_barrier_t begun;
  pthread_barrier_init(&begun, NULL, 2);
  pthread_t other = start(stay, &begun);
  pthread_barrier_wait(&begun);
  handle(SIGIO);
  int pair[2], sum = 0;
  char byte;
  need(pipe(pair) == 0 && fcntl(pair[0], F_SETFL, O_ASYNC | O_NONBLOCK) == 0 && fcntl(pair[0], F_SETOWN, getpid()) == 0);
  for (int i = 0; i < 2000; i++) {
    int before = handled;
    need(execl("/", "x", NULL) == -1 && errno == EACCES && write(pair[1], "x", 1) == 1);
    sum += handled != before + 1;
    while (handled == before) sched_yield();
    need(read(pair[0], &byte, 1) == 1);
  }
  say("late %d", sum);
  pthread_cancel(other), finish(other);
}

/* Its signal comes before the timer is off, or not at all. */
CASE(timer_off) {
  int after = 0;
  for (int i = 0; i < 300; i++) {
    handle(SIGALRM);
    struct itimerval soon = {.it_value.tv_usec = 150}, off = {0};
    need(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    usleep(120 + i % 60);
    need(setitimer(ITIMER_REAL, &off, NULL) == 0);
    int before = handled;
    for (int k = 0; k < 20; k++) getppid();
    after += handled != before;
    /* If one came now, this would be the end. */
    need(signal(SIGALRM, SIG_DFL) != SIG_ERR);
    usleep(50);
  }
  say("setitimer: after it was off: %d", after);
}

/* A signal to the process is the main thread's, if it lets it through, whoever sends it. */
static void *send_to_process(void *how) {
  union sigval value = {0};
  int self = syscall(SYS_pidfd_open, getpid(), 0);
  sleep_ms(50);
  switch ((intptr_t)how) {
    case 0: need(kill(getpid(), SIGUSR1) == 0); break;
    case 1: need(sigqueue(getpid(), SIGUSR1, value) == 0); break;
    default: need(syscall(SYS_pidfd_send_signal, self, SIGUSR1, NULL, 0) == 0);
  }
  return NULL;
}
CASE(main_thread_first) {
  handle(SIGUSR1);
  for (intptr_t how = 0; how < 3; how++) {
    handled_by = 0;
    pthread_t other = start(send_to_process, (void *)how);
    struct timespec long_time = {10, 0};
    int slept = nanosleep(&long_time, NULL);
    finish(other);
    say("%d: sleep %s, by main %d", (int)how, slept == 0 ? "ended" : "interrupted", handled_by == getpid());
  }
}

CASE(terminal) {
  int master, slave;
  need(openpty(&master, &slave, NULL, NULL, NULL) == 0);
  pid_t pid = fork();
  need(pid >= 0);
  if (pid == 0) {
    need(setsid() >= 0 && ioctl(slave, TIOCSCTTY, 0) == 0);
    handle(SIGWINCH);
    EACH("size", ({
           struct winsize size = {.ws_row = 10 + i % 2, .ws_col = 20};
           ioctl(slave, TIOCSWINSZ, &size);
         }));
    handle(SIGHUP);
    need(ioctl(slave, TIOCNOTTY) == 0);
    say("given up: hung up %d", handled);
    _exit(0);
  }
  need(waitpid(pid, NULL, 0) == pid);
}
