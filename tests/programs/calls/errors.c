//@ table
/* What is wrong with a call is said as Linux says it, and in its order, although many calls reach the host in another
 * form first. */
#include "tried.h"
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/msg.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

#define BAD ((void *)8)
static char bytes[4096];
static int fds[2], file, folder, readable;

static void prepare(void) {
  need(pipe(fds) == 0);
  file = memfd_create("file", 0);
  folder = open("/", O_RDONLY | O_DIRECTORY);
  readable = eventfd(1, 0);
  need(file >= 0 && folder >= 0 && readable >= 0);
}
static void tidy(void) { close(fds[0]), close(fds[1]), close(file), close(folder), close(readable); }

CASE(read_and_write) {
  prepare();
  SYS(read, "bad fd", -1, bytes, 10);
  SYS(read, "bad fd, length 0", -1, bytes, 0);
  SYS(read, "end of pipe to write", fds[1], bytes, 10);
  SYS(read, "folder", folder, bytes, 10);
  SYS(read, "length 0 of an empty pipe", fds[0], bytes, 0);
  SYS(read, "bad address, file at its end", file, BAD, 10);
  SYS(read, "eventfd, too short", readable, bytes, 4);
  SYS(read, "eventfd, bad address", readable, BAD, 8);
  must(write(fds[1], "x", 1) == 1);
  SYS(read, "bad address", fds[0], BAD, 10);
  SYS(read, "address of the kernel", fds[0], (void *)-4096L, 10);
  SYS(read, "length beyond user space", fds[0], bytes, -1L);
  SYS(write, "bad fd", 1000, bytes, 10);
  SYS(write, "end to read", fds[0], bytes, 10);
  SYS(write, "bad address", fds[1], BAD, 10);
  SYS(write, "bad address, length 0", fds[1], BAD, 0);
  SYS(write, "eventfd, too short", readable, bytes, 4);
  SYS(write, "file, bad address", file, BAD, 10);
  SYS(readv, "count -1", fds[0], NULL, -1);
  SYS(readv, "count 1025", fds[0], bytes, 1025);
  SYS(readv, "count 0", fds[0], NULL, 0);
  SYS(readv, "bad vector", fds[0], BAD, 1);
  struct iovec negative = {bytes, (size_t)-1}, bad = {BAD, 10};
  SYS(readv, "negative length", fds[0], &negative, 1);
  SYS(readv, "bad buffer", fds[0], &bad, 1);
  SYS(writev, "bad fd before bad vector", -1, BAD, 1);
  SYS(writev, "negative length", fds[1], &negative, 1);
  SYS(writev, "bad buffer", fds[1], &bad, 1);
  SYS(preadv2, "bad flag", file, &bad, 1, 0, 0, 0x4000);
  SYS(pread64, "pipe", fds[0], bytes, 10, 0);
  SYS(pread64, "negative place", file, bytes, 10, -1L);
  SYS(pwrite64, "pipe", fds[1], bytes, 10, 0);
  SYS(lseek, "pipe", fds[0], 0, SEEK_CUR);
  SYS(lseek, "bad whence", file, 0, 9);
  tidy();
}

CASE(polls) {
  prepare();
  struct pollfd one = {.fd = readable, .events = POLLIN}, closed = {.fd = 1000, .events = POLLIN};
  struct timespec bad_time = {.tv_nsec = 1000000000}, negative = {.tv_sec = -1}, zero = {0};
  SYS(poll, "bad address", BAD, 1, 0);
  SYS(poll, "too many", &one, 0x7fffffff, 0);
  SYS(poll, "closed fd", &closed, 1, -1);
  say("revents %d", closed.revents == POLLNVAL);
  SYS(poll, "nothing, 1 ms", NULL, 0, 1);
  SYS(ppoll, "bad nanoseconds", &one, 1, &bad_time, NULL, 8);
  SYS(ppoll, "negative time", &one, 1, &negative, NULL, 8);
  SYS(ppoll, "bad time", &one, 1, BAD, NULL, 8);
  SYS(ppoll, "bad mask", &one, 1, &zero, BAD, 8);
  SYS(ppoll, "bad size of mask", &one, 1, &zero, bytes, 4);
  SYS(ppoll, "bad time before bad mask", &one, 1, BAD, BAD, 4);
  SYS(ppoll, "bad mask before bad set", BAD, 1, &zero, BAD, 8);
  struct timeval bad_timeval = {.tv_usec = -1}, no_time = {0};
  fd_set set;
  FD_ZERO(&set);
  FD_SET(1000, &set);
  SYS(select, "closed fd", 1001, &set, NULL, NULL, &no_time);
  SYS(select, "negative count", -1, NULL, NULL, NULL, &no_time);
  SYS(select, "negative microseconds", 0, NULL, NULL, NULL, &bad_timeval);
  SYS(select, "bad set", 10, BAD, NULL, NULL, &no_time);
  SYS(select, "bad time", 0, NULL, NULL, NULL, BAD);
  SYS(pselect6, "bad time", 0, NULL, NULL, NULL, BAD, NULL);
  SYS(pselect6, "bad mask", 0, NULL, NULL, NULL, &zero, BAD);
  SYS(pselect6, "negative count", -1, NULL, NULL, NULL, &zero, NULL);
  int epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  need(epoll_ctl(epoll, EPOLL_CTL_ADD, readable, &event) == 0);
  SYS(epoll_wait, "no events", epoll, bytes, 0, 0);
  SYS(epoll_wait, "negative events", epoll, bytes, -1, 0);
  SYS(epoll_wait, "too many events", epoll, bytes, 0x7fffffff, 0);
  SYS(epoll_wait, "bad address", epoll, BAD, 1, 0);
  SYS(epoll_wait, "bad address, waiting", epoll, BAD, 1, -1);
  SYS(epoll_wait, "not an epoll", file, bytes, 1, 0);
  SYS(epoll_wait, "bad fd", -1, bytes, 1, 0);
  SYS(epoll_pwait, "bad mask", epoll, bytes, 1, 0, BAD, 8);
  SYS(epoll_pwait, "bad size of mask", epoll, bytes, 1, 0, bytes, 4);
  SYS(epoll_pwait2, "bad time", epoll, bytes, 1, BAD, NULL, 8);
  SYS(epoll_pwait2, "bad nanoseconds", epoll, bytes, 1, &bad_time, NULL, 8);
  SYS(epoll_ctl, "there already", epoll, EPOLL_CTL_ADD, readable, &event);
  SYS(epoll_ctl, "a file", epoll, EPOLL_CTL_ADD, file, &event);
  SYS(epoll_ctl, "itself", epoll, EPOLL_CTL_ADD, epoll, &event);
  SYS(epoll_ctl, "bad address", epoll, EPOLL_CTL_ADD, fds[0], BAD);
  close(epoll);
  tidy();
}

CASE(sockets) {
  prepare();
  int both[2], listener = socket(AF_UNIX, SOCK_STREAM, 0), fresh = socket(AF_INET, SOCK_STREAM, 0);
  need(socketpair(AF_UNIX, SOCK_STREAM, 0, both) == 0 && listener >= 0 && fresh >= 0);
  struct sockaddr_in nobody = {.sin_family = AF_INET, .sin_port = htons(1), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  SYS(accept, "not a socket", file, NULL, NULL);
  SYS(accept, "bad fd", -1, NULL, NULL);
  SYS(accept, "not listening", listener, NULL, NULL);
  SYS(accept4, "bad flags", listener, NULL, NULL, 1);
  SYS(connect, "nobody there", fresh, &nobody, sizeof nobody);
  SYS(connect, "not a socket", file, &nobody, sizeof nobody);
  SYS(connect, "bad address", fresh, BAD, sizeof nobody);
  SYS(connect, "too long", fresh, &nobody, 4096);
  SYS(connect, "connected already", both[0], &(struct sockaddr){.sa_family = AF_UNIX}, 3);
  SYS(recvfrom, "not a socket", file, bytes, 10, 0, NULL, NULL);
  SYS(recvfrom, "not connected", fresh, bytes, 10, 0, NULL, NULL);
  SYS(recvfrom, "MSG_OOB of a unix socket", both[0], bytes, 10, MSG_OOB, NULL, NULL);
  SYS(recvfrom, "MSG_ERRQUEUE, nothing", fresh, bytes, 10, MSG_ERRQUEUE, NULL, NULL);
  SYS(recvfrom, "length 0, MSG_DONTWAIT", both[0], bytes, 0, MSG_DONTWAIT, NULL, NULL);
  must(write(both[1], "x", 1) == 1);
  SYS(recvfrom, "bad address", both[0], BAD, 10, 0, NULL, NULL);
  SYS(recvmsg, "bad header", both[0], BAD, 0);
  SYS(recvmsg, "not a socket", file, BAD, 0);
  struct iovec part = {bytes, 10};
  struct msghdr many = {.msg_iov = &part, .msg_iovlen = 2000};
  SYS(recvmsg, "too many parts", both[0], &many, 0);
  SYS(recvmmsg, "bad time", both[0], NULL, 1, 0, &(struct timespec){.tv_nsec = -1});
  SYS(recvmmsg, "bad vector", both[0], BAD, 1, 0, NULL);
  SYS(sendto, "bad address", both[0], BAD, 10, 0, NULL, 0);
  SYS(sendto, "not connected", fresh, bytes, 10, MSG_NOSIGNAL, NULL, 0);
  SYS(sendto, "not a socket", file, bytes, 10, 0, NULL, 0);
  SYS(sendmsg, "bad header", both[0], BAD, 0);
  SYS(sendmmsg, "bad vector", both[0], BAD, 1, 0);
  SYS(shutdown, "bad way", both[0], 7);
  SYS(shutdown, "not connected", fresh, SHUT_RD);
  SYS(getsockopt, "bad level", both[0], 9999, 1, bytes, &(int){4});
  SYS(setsockopt, "bad time", both[0], SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_usec = 1000000}, 16);
  SYS(bind, "bad address", fresh, BAD, 16);
  SYS(listen, "unbound", listener, 1);
  SYS(socket, "bad family", 9999, SOCK_STREAM, 0);
  close(both[0]), close(both[1]), close(listener), close(fresh);
  tidy();
}

CASE(queues) {
  int sem = semget(IPC_PRIVATE, 1, 0600), msg = msgget(IPC_PRIVATE, 0600);
  need(sem >= 0 && msg >= 0);
  struct sembuf down = {.sem_op = -1}, far = {.sem_num = 5, .sem_op = -1}, try = {.sem_op = -1, .sem_flg = IPC_NOWAIT};
  SYS(semop, "no such set", -1, &down, 1);
  SYS(semop, "nothing to do", sem, &down, 0);
  SYS(semop, "too many", sem, &down, 100000);
  SYS(semop, "bad address", sem, BAD, 1);
  SYS(semop, "no such semaphore", sem, &far, 1);
  SYS(semop, "IPC_NOWAIT", sem, &try, 1);
  SYS(semtimedop, "bad time", sem, &down, 1, &(struct timespec){.tv_nsec = -1});
  SYS(semtimedop, "bad address of time", sem, &down, 1, BAD);
  struct {
    long type;
    char text[16];
  } message = {.type = 0};
  SYS(msgsnd, "type 0", msg, &message, 10, 0);
  message.type = 3;
  SYS(msgsnd, "no such queue", -1, &message, 10, 0);
  SYS(msgsnd, "too long", msg, &message, 1 << 20, 0);
  SYS(msgsnd, "bad address", msg, BAD, 10, 0);
  SYS(msgrcv, "IPC_NOWAIT", msg, &message, 10, 0, IPC_NOWAIT);
  SYS(msgrcv, "no such queue", -1, &message, 10, 0, 0);
  SYS(msgrcv, "negative length", msg, &message, -1L, 0, 0);
  must(msgsnd(msg, &message, 16, 0) == 0);
  SYS(msgrcv, "too short", msg, &message, 4, 0, 0);
  SYS(msgrcv, "MSG_EXCEPT, none other", msg, &message, 16, 3, IPC_NOWAIT | 020000);
  SYS(msgrcv, "too short, MSG_NOERROR", msg, &message, 4, 0, 010000);
  SYS(semctl, "remove", sem, 0, IPC_RMID);
  SYS(msgctl, "remove", msg, IPC_RMID, NULL);
  SYS(semop, "removed", sem, &down, 1);
  SYS(mq_timedreceive, "bad fd", -1, bytes, 10, NULL, NULL);
  SYS(mq_open, "no such queue", "entresol-none", O_RDONLY, 0, NULL);
}

/* What waits ends when what it waits for is removed. */
static int removed_sem, removed_msg;
static void *wait_for_sem(void *argument) {
  tried("semop", "removed meanwhile", semop(removed_sem, &(struct sembuf){.sem_op = -1}, 1));
  return argument;
}
static void *wait_for_msg(void *argument) {
  tried("msgrcv", "removed meanwhile", msgrcv(removed_msg, bytes, 100, 0, 0));
  return argument;
}
CASE(removed) {
  removed_sem = semget(IPC_PRIVATE, 1, 0600), removed_msg = msgget(IPC_PRIVATE, 0600);
  pthread_t thread = start(wait_for_sem, NULL);
  settle();
  semctl(removed_sem, 0, IPC_RMID);
  finish(thread);
  thread = start(wait_for_msg, NULL);
  settle();
  msgctl(removed_msg, IPC_RMID, NULL);
  finish(thread);
}

CASE(files) {
  prepare();
  struct flock odd = {.l_type = 99}, lock = {.l_type = F_RDLCK};
  SYS(flock, "bad operation", file, 0);
  SYS(flock, "bad fd", -1, LOCK_EX);
  SYS(flock, "LOCK_NB", file, LOCK_EX | LOCK_NB);
  SYS(fcntl, "F_SETLKW, bad type", file, F_SETLKW, &odd);
  SYS(fcntl, "F_SETLKW, bad address", file, F_SETLKW, BAD);
  SYS(fcntl, "F_SETLKW, pipe to write", fds[1], F_SETLKW, &lock);
  SYS(fcntl, "bad command", file, 9999, 0);
  SYS(fcntl, "F_DUPFD too high", file, F_DUPFD, 1 << 30);
  SYS(fcntl, "F_OFD_SETLKW with a pid", file, F_OFD_SETLKW, &(struct flock){.l_type = F_WRLCK, .l_pid = 1});
  SYS(open, "no such file", "/nowhere/at/all", O_RDONLY);
  SYS(open, "bad address", BAD, O_RDONLY);
  SYS(open, "folder to write", "/", O_WRONLY);
  SYS(open, "O_DIRECTORY of a file", "/proc/self/status", O_RDONLY | O_DIRECTORY);
  SYS(openat, "not a folder", file, "x", O_RDONLY, 0);
  SYS(openat2, "bad size", AT_FDCWD, "/", bytes, 8);
  SYS(close, "closed", 1000);
  SYS(ioctl, "not a terminal", file, 0x5401, bytes);
  SYS(ioctl, "FIONREAD, bad address", fds[0], 0x541b, BAD);
  SYS(sendfile, "pipe as source", fds[1], fds[0], NULL, 10);
  SYS(sendfile, "bad fd", -1, file, NULL, 10);
  SYS(sendfile, "bad place", fds[1], file, BAD, 10);
  SYS(splice, "no pipe", file, NULL, folder, NULL, 10, 0);
  SYS(splice, "same pipe", fds[0], NULL, fds[1], NULL, 10, 0);
  SYS(splice, "place in a pipe", fds[0], &(loff_t){0}, file, NULL, 10, 0);
  SYS(splice, "length 0", fds[0], NULL, file, NULL, 0, 0);
  SYS(splice, "bad flags", fds[0], NULL, file, NULL, 10, 0x100);
  SYS(tee, "no pipe", file, fds[1], 10, 0);
  SYS(vmsplice, "no pipe", file, bytes, 1, 0);
  SYS(vmsplice, "bad flags", fds[1], bytes, 1, 0x100);
  SYS(copy_file_range, "pipe", fds[0], NULL, file, NULL, 10, 0);
  SYS(fsync, "pipe", fds[0]);
  SYS(fallocate, "bad mode", file, 0x1000, 0, 10);
  SYS(ftruncate, "negative", file, -1L);
  SYS(getrandom, "bad flags", bytes, 10, 0x100);
  SYS(getrandom, "bad address", BAD, 10, 0);
  SYS(getdents64, "file", file, bytes, 100);
  SYS(dup2, "bad fd", 1000, 5);
  SYS(dup3, "same", file, file, 0);
  SYS(pipe2, "bad flags", bytes, 0x1);
  SYS(pipe2, "bad address", BAD, 0);
  tidy();
}

CASE(children) {
  siginfo_t info;
  SYS(wait4, "no child", -1, NULL, 0, NULL);
  SYS(wait4, "bad options", -1, NULL, 0x100, NULL);
  SYS(wait4, "INT_MIN", INT_MIN, NULL, 0, NULL);
  SYS(wait4, "not a child", 1, NULL, 0, NULL);
  SYS(wait4, "no child, WNOHANG", -1, NULL, WNOHANG, NULL);
  SYS(waitid, "no options", P_ALL, 0, &info, 0, NULL);
  SYS(waitid, "bad options", P_ALL, 0, &info, 0x1000000 | WEXITED, NULL);
  SYS(waitid, "bad kind", 9, 0, &info, WEXITED, NULL);
  SYS(waitid, "no child", P_ALL, 0, &info, WEXITED, NULL);
  SYS(waitid, "P_PIDFD, bad fd", P_PIDFD, 1000, &info, WEXITED, NULL);
  SYS(waitid, "P_PID 0", P_PID, 0, &info, WEXITED, NULL);
  pid_t child = fork();
  need(child != -1);
  if (child == 0) _exit(3);
  must(syscall(SYS_waitid, P_PID, child, &info, WEXITED | WNOWAIT, NULL) == 0);
  SYS(waitid, "bad info", P_PID, child, BAD, WEXITED | WNOWAIT, NULL);
  tried("wait4", "bad status", syscall(SYS_wait4, child, BAD, 0, NULL));
  tried("wait4", "reaped by the one before", syscall(SYS_wait4, child, NULL, 0, NULL));
}

CASE(times_and_signals) {
  struct timespec bad_time = {.tv_nsec = 1000000000}, negative = {.tv_sec = -1};
  sigset_t set;
  sigemptyset(&set);
  SYS(nanosleep, "bad nanoseconds", &bad_time, NULL);
  SYS(nanosleep, "negative", &negative, NULL);
  SYS(nanosleep, "bad address", BAD, NULL);
  SYS(rt_sigtimedwait, "bad time", &set, NULL, &bad_time, 8);
  SYS(rt_sigtimedwait, "bad set", BAD, NULL, NULL, 8);
  SYS(rt_sigtimedwait, "bad size", &set, NULL, NULL, 4);
  SYS(rt_sigtimedwait, "zero", &set, NULL, &(struct timespec){0}, 8);
  SYS(rt_sigsuspend, "bad size", &set, 4);
  SYS(rt_sigsuspend, "bad set", BAD, 8);
  SYS(rt_sigprocmask, "bad how", 77, &set, NULL, 8);
  SYS(rt_sigprocmask, "bad size", SIG_BLOCK, &set, NULL, 4);
  SYS(rt_sigprocmask, "bad old", SIG_BLOCK, &set, BAD, 8);
  SYS(rt_sigpending, "bad address", BAD, 8);
  SYS(rt_sigpending, "too large", bytes, 16);
  SYS(rt_sigaction, "signal 0", 0, NULL, NULL, 8);
  SYS(rt_sigaction, "signal 65", 65, NULL, NULL, 8);
  SYS(rt_sigaction, "bad new", SIGUSR1, BAD, NULL, 8);
  SYS(rt_sigaction, "bad old", SIGUSR1, NULL, BAD, 8);
  SYS(rt_sigaction, "bad size", SIGUSR1, NULL, NULL, 4);
  SYS(sigaltstack, "bad address", BAD, NULL);
  SYS(sigaltstack, "too small", &(stack_t){.ss_sp = bytes, .ss_size = 100}, NULL);
  SYS(sigaltstack, "bad flags", &(stack_t){.ss_sp = bytes, .ss_size = 4096, .ss_flags = 0x77}, NULL);
  SYS(kill, "bad signal", getpid(), 65);
  SYS(kill, "negative signal", getpid(), -1);
  SYS(kill, "nobody", 0x3fffffff, SIGTERM);
  SYS(kill, "INT_MIN", INT_MIN, SIGTERM);
  SYS(kill, "signal 0", getpid(), 0);
  SYS(tkill, "0", 0, 0);
  SYS(tkill, "nobody", 0x3fffffff, 0);
  SYS(tgkill, "other group", 1, gettid(), 0);
  SYS(tgkill, "bad signal", getpid(), gettid(), 65);
  SYS(tgkill, "group 0", 0, gettid(), 0);
  siginfo_t forged = {.si_code = SI_USER};
  SYS(rt_sigqueueinfo, "SI_USER to another", 1, SIGUSR1, &forged);
  SYS(rt_sigqueueinfo, "bad address", getpid(), SIGUSR1, BAD);
  SYS(rt_tgsigqueueinfo, "nobody", getpid(), 0x3fffffff, SIGUSR1, &forged);
  SYS(pidfd_open, "nobody", 0x3fffffff, 0);
  SYS(pidfd_open, "bad flags", getpid(), 0x1);
  SYS(pidfd_send_signal, "bad fd", 1000, 0, NULL, 0);
  SYS(signalfd4, "bad size", -1, &set, 4, 0);
  SYS(signalfd4, "bad flags", -1, &set, 8, 0x1);
  SYS(signalfd4, "not a signalfd", 0, &set, 8, 0);
  SYS(timerfd_create, "bad clock", 99, 0);
  SYS(timerfd_settime, "not a timerfd", 0, 0, &(struct itimerspec){0}, NULL);
  SYS(eventfd2, "bad flags", 0, 0x7777777);
  SYS(alarm, "0", 0);
  SYS(setitimer, "bad timer", 9, NULL, NULL);
  SYS(getitimer, "bad address", ITIMER_REAL, BAD);
}

CASE(processes) {
  char *none[] = {NULL};
  SYS(execve, "no such file", "/nowhere/at/all", none, none);
  SYS(execve, "bad path", BAD, none, none);
  SYS(execve, "bad arguments", "/bin/true", BAD, none);
  SYS(execve, "bad environment", "/bin/true", none, BAD);
  SYS(execve, "folder", "/", none, none);
  SYS(execve, "not executable", "/etc/passwd", none, none);
  SYS(execveat, "bad flags", AT_FDCWD, "/bin/true", none, none, 0x77);
  SYS(execveat, "empty path", AT_FDCWD, "", none, none, 0);
  SYS(clone, "sighand without vm", CLONE_SIGHAND | SIGCHLD, 0, 0, 0, 0);
  SYS(clone, "thread without sighand", CLONE_THREAD, 0, 0, 0, 0);
  SYS(clone3, "too small", bytes, 8);
  SYS(clone3, "bad address", BAD, 64);
  SYS(setpgid, "nobody", 0x3fffffff, 0);
  SYS(getpgid, "nobody", 0x3fffffff);
  SYS(getsid, "nobody", 0x3fffffff);
  SYS(prctl, "bad option", 0x7fffffff, 0, 0, 0, 0);
  SYS(getrlimit, "bad resource", 99, bytes);
  SYS(setrlimit, "soft above hard", RLIMIT_NOFILE, &(struct rlimit){100, 10});
  SYS(prlimit64, "nobody", 0x3fffffff, RLIMIT_NOFILE, NULL, bytes);
  SYS(getrusage, "bad who", 77, bytes);
  SYS(sysinfo, "bad address", BAD);
  SYS(uname, "bad address", BAD);
  SYS(getcwd, "too short", bytes, 1);
  SYS(chdir, "no such folder", "/nowhere/at/all");
  SYS(mmap, "length 0", NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  SYS(mmap, "bad fd", NULL, 4096, PROT_READ, MAP_PRIVATE, 1000, 0);
  SYS(mmap, "no kind", NULL, 4096, PROT_READ, MAP_ANONYMOUS, -1, 0);
  SYS(mmap, "stack at an odd place", NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 1);
  SYS(munmap, "odd address", 1, 4096);
  SYS(munmap, "length 0", 4096, 0);
  SYS(mprotect, "unmapped", 4096, 4096, PROT_READ);
  SYS(madvise, "bad advice", 4096, 4096, 9999);
  SYS(mremap, "unmapped", 4096, 4096, 8192, MREMAP_MAYMOVE);
  SYS(close_range, "wrong order", 10, 5, 0);
  SYS(close_range, "bad flags", 1000, 1001, 0x77);
  SYS(membarrier, "bad command", 0x7777, 0, 0);
  SYS(rseq, "bad length", bytes, 1, 0, 0);
  SYS(set_robust_list, "bad length", bytes, 1);
  SYS(sched_yield, "");
  tried("no such call", "9999", syscall(9999));
}
