/* Ids of threads where a process is meant, and calls that are about one thread. */
#include "../check.h"
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

static _Atomic pid_t tid;
static atomic_int leave;
static void *other(void *unused) {
  tid = gettid();
  wait_until(leave);
  return unused;
}
static pthread_t begin(void) {
  tid = 0;
  leave = 0;
  pthread_t thread = start(other, NULL);
  wait_until(tid);
  return thread;
}
static void end(pthread_t thread) {
  leave = 1;
  finish(thread);
}

static atomic_int arrived;
static void count(int signal) {
  (void)signal;
  arrived++;
}

static void name(pid_t id) {
  int from = 42, to = 0;
  struct iovec here = {&to, sizeof to}, there = {&from, sizeof from};
  struct rlimit limit = {0}, own;
  say("kill 0 %s", result(kill(id, 0)));
  arrived = 0;
  say("kill %s", result(kill(id, SIGUSR1)));
  wait_until(arrived == 1);
  say("sigqueue %s", result(sigqueue(id, SIGUSR1, (union sigval){0})));
  wait_until(arrived == 2);
  say("getpgid %d", getpgid(id) == getpgid(0));
  say("getsid %d", getsid(id) == getsid(0));
  say("setpgid %s", id == getpid() ? "" : result(setpgid(id, 0)));
  need(getrlimit(RLIMIT_NOFILE, &own) == 0);
  say("prlimit %s", result(prlimit(id, RLIMIT_NOFILE, NULL, &limit)));
  say("the same %d", limit.rlim_cur == own.rlim_cur);
  say("prlimit of CPU %s", result(prlimit(id, RLIMIT_CPU, NULL, &limit)));
  say("process_vm_readv %s", result(process_vm_readv(id, &here, 1, &there, 1, 0)));
  say("read %d", to);
  from = 43;
  say("process_vm_writev %s", result(process_vm_writev(id, &there, 1, &here, 1, 0)));
  say("written %d", to);
  say("kcmp %s", result(syscall(SYS_kcmp, id, getpid(), 1, 0, 0)));
  say("kcmp %s", result(syscall(SYS_kcmp, getpid(), id, 2, 0, 0)));
  say("ioprio_get %d", syscall(SYS_ioprio_get, 1, id) >= 0);
  say("move_pages %s", result(syscall(SYS_move_pages, id, 0, NULL, NULL, NULL, 0)));
  say("robust list %s", result(syscall(SYS_get_robust_list, id, &(void *){0}, &(size_t){0})));
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, id};
  struct __user_cap_data_struct data[2];
  say("capget %s", result(syscall(SYS_capget, &header, data)));
  header = (struct __user_cap_header_struct){77, id};
  say("capget of a version %s", result(syscall(SYS_capget, &header, data)));
  say("which is %#x", header.version);
}

CASE(ids) {
  signal(SIGUSR1, count);
  pthread_t thread = begin();
  name(getpid());
  name(tid);
  end(thread);
  /* Its end is announced before its id is gone. */
  wait_until(kill(tid, 0) != 0);
  say("gone: %s", result(kill(tid, 0)));
}

/* A descriptor of a process is not to be had for a thread. */
CASE(no_leader) {
  pthread_t thread = begin();
  int fd = syscall(SYS_pidfd_open, getpid(), 0);
  say("the leader %d", fd >= 0);
  close(fd);
  say("another %d", syscall(SYS_pidfd_open, tid, 0) >= 0);
  end(thread);
}

/* Descriptors that send signals: who gets them. */
static _Atomic pid_t got;
static void who(int signal, siginfo_t *info, void *unused) {
  (void)signal, (void)info, (void)unused;
  got = gettid();
}
static void *own(void *fds) {
  struct f_owner_ex owner = {F_OWNER_TID, gettid()}, is;
  int fd = *(int *)fds;
  say("set %s", result(fcntl(fd, F_SETOWN_EX, &owner)));
  need(fcntl(fd, F_GETOWN_EX, &is) == 0);
  say("kind %d, mine %d", is.type, is.pid == gettid());
  say("F_GETOWN %d", fcntl(fd, F_GETOWN) == gettid());
  tid = gettid();
  wait_until(got);
  return NULL;
}
CASE(owners) {
  static const int signals[] = {0, SIGUSR2, SIGIO};
  for (int i = 0; i < COUNT(signals); i++) {
    int fds[2];
    int number = signals[i] ? signals[i] : SIGIO;
    sigaction(number, &(struct sigaction){.sa_sigaction = who, .sa_flags = SA_SIGINFO | SA_RESTART}, NULL);
    need(pipe(fds) == 0 && fcntl(fds[0], F_SETSIG, signals[i]) == 0);
    need(fcntl(fds[0], F_SETFL, O_ASYNC) == 0);
    got = 0;
    tid = 0;
    pthread_t thread = start(own, fds);
    wait_until(tid);
    need(write(fds[1], "x", 1) == 1);
    wait_until(got);
    say("signal %d came to %s", signals[i], got == tid ? "its owner" : "another");
    finish(thread);
    struct f_owner_ex owner = {F_OWNER_PID, getpid()}, is = {77, 77};
    say("the process %s", result(fcntl(fds[0], F_SETOWN_EX, &owner)));
    need(fcntl(fds[0], F_GETOWN_EX, &is) == 0);
    say("kind %d, mine %d", is.type, is.pid == getpid());
    say("a group %s", result(fcntl(fds[0], F_SETOWN, -getpgrp())));
    say("it is %d", fcntl(fds[0], F_GETOWN) == -getpgrp());
    say("a kind %s", result(fcntl(fds[0], F_SETOWN_EX, &(struct f_owner_ex){7, getpid()})));
    say("nobody %s", result(fcntl(fds[0], F_SETOWN_EX, &(struct f_owner_ex){F_OWNER_TID, 0x3ffffff0})));
    say("no address %s", result(fcntl(fds[0], F_SETOWN_EX, (void *)8)));
    close(fds[0]), close(fds[1]);
  }
}

/* A thread's id where a process's or a group's belongs: the one that has it, or nobody. */
CASE(owners_by_thread_id) {
  int fds[2], asked = 77, minus;
  struct f_owner_ex is;
  pthread_t thread = begin();
  int id = tid;
  minus = -id;
  need(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  say("process %s", result(fcntl(fds[0], F_SETOWN, id)));
  say("group %s", result(fcntl(fds[0], F_SETOWN, -id)));
  need(fcntl(fds[0], F_GETOWN_EX, &is) == 0);
  say("kind %d of %d", is.type, is.pid);
  say("process again %s", result(fcntl(fds[0], F_SETOWN_EX, &(struct f_owner_ex){F_OWNER_PID, id})));
  say("group again %s", result(fcntl(fds[0], F_SETOWN_EX, &(struct f_owner_ex){F_OWNER_PGRP, id})));
  need(fcntl(fds[0], F_GETOWN_EX, &is) == 0);
  say("kind %d of %d", is.type, is.pid);
  say("socket's group %s", result(ioctl(fds[0], FIOSETOWN, &minus)));
  say("asked %s", result(ioctl(fds[0], FIOGETOWN, &asked)));
  need(fcntl(fds[0], F_GETOWN_EX, &is) == 0);
  say("it is %d, of kind %d", asked, is.type);
  need(fcntl(fds[0], F_SETOWN_EX, &(struct f_owner_ex){F_OWNER_TID, id}) == 0);
  need(ioctl(fds[0], FIOGETOWN, &asked) == 0);
  say("thread of a socket %d", asked == id);
  say("socket's process %s", result(ioctl(fds[0], SIOCSPGRP, &id)));
  say("no socket %d", ioctl(0, FIOSETOWN, &id) == 0);
  say("no address %s", result(ioctl(fds[0], FIOSETOWN, (void *)8)));
  sigaction(SIGIO, &(struct sigaction){.sa_sigaction = who, .sa_flags = SA_SIGINFO | SA_RESTART}, NULL);
  need(fcntl(fds[0], F_SETFL, O_ASYNC) == 0);
  got = 0;
  need(write(fds[1], "x", 1) == 1);
  wait_until(got);
  say("came");
  close(fds[0]), close(fds[1]);
  end(thread);
}

/* Only the first thread may tell its process that a signal is the kernel's or somebody's. */
static void *pretend(void *unused) {
  static const int codes[] = {SI_USER, SI_QUEUE, SI_TKILL, SI_KERNEL};
  int fd = syscall(SYS_pidfd_open, getpid(), 0);
  for (int i = 0; i < COUNT(codes); i++) {
    siginfo_t info = {.si_signo = SIGUSR1, .si_code = codes[i]};
    arrived = 0;
    int sent = syscall(SYS_pidfd_send_signal, fd, SIGUSR1, &info, 0);
    say("code %d: %s", codes[i], result(sent));
    if (sent == 0) wait_until(arrived == 1);
    say("another signal: %s", result(syscall(SYS_pidfd_send_signal, fd, SIGUSR2, &info, 0)));
    say("flags: %s", result(syscall(SYS_pidfd_send_signal, fd, SIGUSR1, &info, 64)));
    say("no descriptor: %s", result(syscall(SYS_pidfd_send_signal, -1, SIGUSR1, &info, 0)));
    info.si_signo = 99;
    say("no signal: %s", result(syscall(SYS_pidfd_send_signal, fd, 99, &info, 0)));
  }
  say("no address: %s", result(syscall(SYS_pidfd_send_signal, fd, SIGUSR1, 8, 0)));
  close(fd);
  return unused;
}
CASE(pretended_senders) {
  signal(SIGUSR1, count);
  finish(start(pretend, NULL));
}

/* A folder of its own, because other cases run at the same time. */
static char place[32];
static void enter_place(void) {
  strcpy(place, "/tmp/thread-ids-XXXXXX");
  need(mkdtemp(place) && chdir(place) == 0);
}
static void leave_place(void) { need(chdir("/") == 0 && rmdir(place) == 0); }

/* The signal of a folder in which something is renamed has come when the call returns, or soon. */
static void rename_in(int fd, const char *who_asked) {
  got = 0;
  need(rename("watched/a", "watched/b") == 0 && rename("watched/b", "watched/a") == 0);
  wait_until(got);
  say("asked by %s: came", who_asked);
  close(fd);
}
static int watch(void) {
  int fd = open("watched", O_RDONLY);
  need(fd >= 0 && fcntl(fd, F_SETSIG, SIGUSR2) == 0 && fcntl(fd, F_NOTIFY, DN_RENAME | DN_MULTISHOT) == 0);
  return fd;
}
static void *watch_and_stay(void *fd) {
  *(int *)fd = watch();
  tid = gettid();
  wait_until(leave);
  return NULL;
}

/* A folder's signals go to the process, whichever of its threads asks for them. */
CASE(owners_of_folders) {
  int fd;
  enter_place();
  need(mkdir("watched", 0700) == 0 && (fd = open("watched/a", O_CREAT | O_RDWR, 0600)) >= 0);
  close(fd);
  sigaction(SIGUSR2, &(struct sigaction){.sa_sigaction = who, .sa_flags = SA_SIGINFO | SA_RESTART}, NULL);
  rename_in(watch(), "the main thread");
  for (int i = 0; i < 8; i++) {
    tid = 0;
    leave = 0;
    pthread_t thread = start(watch_and_stay, &fd);
    wait_until(tid);
    rename_in(fd, "another thread");
    end(thread);
  }
  unlink("watched/a"), rmdir("watched");
  leave_place();
}

/* A number that stands for another file has none of its owners. */
CASE(owners_of_numbers) {
  int fds[2], again[2];
  struct f_owner_ex owner = {F_OWNER_TID, getpid()};
  sigset_t set;
  sigaction(SIGUSR2, &(struct sigaction){.sa_sigaction = who, .sa_flags = SA_SIGINFO | SA_RESTART}, NULL);
  pthread_t thread = begin();
  sigemptyset(&set), sigaddset(&set, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  enter_place();
  for (int way = 0; way < 2; way++) {
    need(pipe(fds) == 0 && fcntl(fds[0], F_SETOWN_EX, &owner) == 0);
    need(mkdir("watched", 0700) == 0 && pipe(again) == 0);
    if (way) need(dup2(again[0], fds[0]) == fds[0]);
    else close(fds[0]);
    int fd = way ? fds[0] : open("watched", O_RDONLY);
    need(fd == fds[0] && fcntl(fd, F_SETSIG, SIGUSR2) == 0);
    if (way) need(fcntl(again[0], F_SETOWN, getpid()) == 0 && fcntl(fd, F_SETFL, O_ASYNC) == 0);
    else need(fcntl(fd, F_NOTIFY, DN_CREATE) == 0);
    got = 0;
    need(way ? write(again[1], "x", 1) == 1 : mkdir("watched/a", 0700) == 0);
    wait_until(got);
    say("it came to %s", got == tid ? "the other thread" : "the main thread");
    close(fd), close(fds[1]), close(again[0]), close(again[1]);
    rmdir("watched/a"), rmdir("watched");
  }
  leave_place();
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  end(thread);
}

/* Timer slack: what it is reset to. */
static void *slack_of_thread(void *unused) {
  say("in a thread %d", prctl(PR_GET_TIMERSLACK));
  prctl(PR_SET_TIMERSLACK, 0);
  say("reset %d", prctl(PR_GET_TIMERSLACK));
  return unused;
}
static void slack_of_child(void) {
  prctl(PR_SET_TIMERSLACK, 90000);
  prctl(PR_SET_TIMERSLACK, 0);
  say("in a child %d", prctl(PR_GET_TIMERSLACK));
}
CASE(timer_slack) {
  prctl(PR_SET_TIMERSLACK, 70000);
  finish(start(slack_of_thread, NULL));
  in_child("child", slack_of_child);
  say("set %s", result(prctl(PR_SET_TIMERSLACK, 80000)));
  prctl(PR_SET_TIMERSLACK, 0);
  say("reset %d", prctl(PR_GET_TIMERSLACK));
}
static void slack_after_exec(void) {
  prctl(PR_SET_TIMERSLACK, 70000);
  if (fork() == 0) {
    prctl(PR_SET_TIMERSLACK, 60000);
    execl("/proc/self/exe", "thread_ids", "slack_in_a_program", NULL);
    _exit(97);
  }
  need(wait(NULL) > 0);
}
/* By itself it has no line of its own: the defaults are the host's. */
CASE(slack_in_a_program) {
  if (getenv("SLACK") == NULL) return;
  say("now %d", prctl(PR_GET_TIMERSLACK));
  prctl(PR_SET_TIMERSLACK, 0);
  say("reset %d", prctl(PR_GET_TIMERSLACK));
}
CASE(timer_slack_over_exec) {
  setenv("SLACK", "1", 1);
  in_child("child", slack_after_exec);
}

enum { GLOBAL_EXPEDITED = 2, PRIVATE = 8, REGISTER_PRIVATE = 16, SYNC_CORE = 32, REGISTER_SYNC_CORE = 64, GET = 512 };
static long barrier(int command, int flags) { return syscall(SYS_membarrier, command, flags, 0); }
static void barrier_of_child(void) { say("in a child %s", result(barrier(PRIVATE, 0))); }
CASE(membarrier) {
  say("registered %s", result(barrier(GET, 0)));
  say("before %s", result(barrier(PRIVATE, 0)));
  say("flags %s", result(barrier(PRIVATE, 1)));
  say("register %s", result(barrier(REGISTER_PRIVATE, 0)));
  say("after %s", result(barrier(PRIVATE, 0)));
  say("registered %s", result(barrier(GET, 0)));
  in_child("child", barrier_of_child);
}
static void other_kind(void) {
  say("another kind %s", result(barrier(REGISTER_SYNC_CORE, 0)));
  say("registered %s", result(barrier(GET, 0)));
  say("this %s, that %s", result(barrier(SYNC_CORE, 0)), result(barrier(PRIVATE, 0)));
}
CASE(membarrier_of_another_kind) { in_child("child", other_kind); }
