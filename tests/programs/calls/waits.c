//@ table
//@ libs: -lrt
//@ seconds: 240
/* Every call that waits, in five ways: what it waits for comes, it was there, time is over, a signal comes whose handler
 * restarts calls and one whose handler does not. Threads that compute compete for the CPUs all the while. */
#include "tried.h"
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>

static int a, b, c;
static char path[64];
static char buffer[1 << 16];
static int timeout_ms; /* -1: none */

static void close_all(void) {
  close(a), close(b);
  if (c > 0) close(c);
  a = b = c = -1;
}

static struct timespec time_left(void) { return timespec_of(timeout_ms * INT64_C(1000000)); }

/* Pipes. */
static void make_pipe(void) {
  int ends[2];
  need(pipe(ends) == 0);
  a = ends[0], b = ends[1];
}
static void feed_pipe(void) { must(write(b, "x", 1) == 1); }
static long do_read(void) { return read(a, buffer, 10); }
static long do_readv(void) {
  struct iovec parts[2] = {{buffer, 1}, {buffer + 1, 9}};
  return readv(a, parts, 2);
}
static void make_full_pipe(void) {
  make_pipe();
  int flags = fcntl(b, F_GETFL);
  fcntl(b, F_SETFL, flags | O_NONBLOCK);
  while (write(b, buffer, 4096) > 0) {}
  fcntl(b, F_SETFL, flags);
}
static void drain_pipe(void) { must(read(a, buffer, 4096) == 4096); }
static long do_write(void) { return write(b, buffer, 100); }
static long do_writev(void) {
  struct iovec parts[2] = {{buffer, 1}, {buffer + 1, 9}};
  return writev(b, parts, 2);
}
static long do_splice(void) { return splice(a, NULL, c, NULL, 100, 0); }
static void make_pipe_and_file(void) {
  make_pipe();
  c = memfd_create("splice", 0);
  need(c >= 0);
}
static long do_sendfile(void) {
  off_t from = 0;
  return sendfile(b, c, &from, 100);
}
static void make_full_pipe_and_file(void) {
  make_full_pipe();
  c = memfd_create("sendfile", 0);
  need(c >= 0 && write(c, buffer, 100) == 100);
}
static void make_fifo(void) {
  snprintf(path, sizeof path, "/tmp/entresol-fifo-%d", getpid());
  unlink(path);
  need(mkfifo(path, 0600) == 0);
}
static long do_open(void) {
  a = open(path, O_RDONLY);
  return a < 0 ? -1 : 0;
}
static void open_other_end(void) {
  b = open(path, O_WRONLY);
  must(b >= 0);
}
static void remove_fifo(void) {
  close_all();
  unlink(path);
}

/* Sockets. */
static void make_sockets(void) {
  int both[2];
  need(socketpair(AF_UNIX, SOCK_STREAM, 0, both) == 0);
  a = both[0], b = both[1];
  if (timeout_ms >= 0) {
    struct timeval time = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
    need(setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
    need(setsockopt(a, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time) == 0);
  }
}
static long do_recv(void) { return recv(a, buffer, 10, 0); }
static long do_recvmsg(void) {
  struct iovec part = {buffer, 10};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  return recvmsg(a, &message, 0);
}
static long do_recvmmsg(void) {
  struct iovec part = {buffer, 10};
  struct mmsghdr message = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
  return recvmmsg(a, &message, 1, 0, NULL);
}
static void make_full_sockets(void) {
  make_sockets();
  int size = 4096;
  setsockopt(a, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  while (send(a, buffer, 1000, MSG_DONTWAIT) > 0) {}
}
static void drain_sockets(void) {
  settle();
  while (recv(b, buffer, sizeof buffer, MSG_DONTWAIT) > 0) {}
}
static long do_send(void) { return send(a, buffer, 1000, 0); }
static long do_sendmsg(void) {
  struct iovec part = {buffer, 1000};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  return sendmsg(a, &message, 0);
}
static struct sockaddr_un address;
static socklen_t address_length;
static void make_listener(void) {
  a = socket(AF_UNIX, SOCK_STREAM, 0);
  address = (struct sockaddr_un){.sun_family = AF_UNIX};
  need(a >= 0 && bind(a, (void *)&address, sizeof(sa_family_t)) == 0 && listen(a, 0) == 0);
  address_length = sizeof address;
  need(getsockname(a, (void *)&address, &address_length) == 0);
  b = c = -1;
  if (timeout_ms >= 0) {
    struct timeval time = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
    need(setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
  }
}
static long do_accept(void) {
  c = accept(a, NULL, NULL);
  return c < 0 ? -1 : 0;
}
static void connect_to_it(void) {
  b = socket(AF_UNIX, SOCK_STREAM, 0);
  must(connect(b, (void *)&address, address_length) == 0);
}
/* The queue of a listener holds one connection more than it was told. */
static void make_full_listener(void) {
  make_listener();
  connect_to_it();
  c = socket(AF_UNIX, SOCK_STREAM, 0);
  if (timeout_ms >= 0) {
    struct timeval time = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
    need(setsockopt(c, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time) == 0);
  }
}
static long do_connect(void) { return connect(c, (void *)&address, address_length); }
static void accept_one(void) {
  int one = accept(a, NULL, NULL);
  must(one >= 0);
  close(one);
}

/* Waits for several files. */
static long do_poll(void) {
  struct pollfd one = {.fd = a, .events = POLLIN};
  return poll(&one, 1, timeout_ms);
}
static long do_ppoll(void) {
  struct pollfd one = {.fd = a, .events = POLLIN};
  struct timespec time = time_left();
  return ppoll(&one, 1, timeout_ms < 0 ? NULL : &time, NULL);
}
static long do_select(void) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(a, &set);
  struct timeval time = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
  return select(a + 1, &set, NULL, NULL, timeout_ms < 0 ? NULL : &time);
}
static long do_pselect(void) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(a, &set);
  struct timespec time = time_left();
  sigset_t none;
  sigemptyset(&none);
  return pselect(a + 1, &set, NULL, NULL, timeout_ms < 0 ? NULL : &time, &none);
}
static void make_epoll(void) {
  make_pipe();
  c = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  need(epoll_ctl(c, EPOLL_CTL_ADD, a, &event) == 0);
}
static long do_epoll_wait(void) {
  struct epoll_event events[2];
  return epoll_wait(c, events, 2, timeout_ms);
}
static long do_epoll_pwait(void) {
  struct epoll_event events[2];
  sigset_t none;
  sigemptyset(&none);
  return epoll_pwait(c, events, 2, timeout_ms, &none);
}
static long do_epoll_pwait2(void) {
  struct epoll_event events[2];
  struct timespec time = time_left();
  return epoll_pwait2(c, events, 2, timeout_ms < 0 ? NULL : &time, NULL);
}

/* Descriptors for events. */
static void make_eventfd(void) {
  a = eventfd(0, 0);
  b = c = -1;
}
static void feed_eventfd(void) { must(eventfd_write(a, 3) == 0); }
static long do_eventfd_read(void) { return read(a, buffer, 8); }
static void make_timerfd(void) {
  a = timerfd_create(CLOCK_MONOTONIC, 0);
  b = c = -1;
}
static void feed_timerfd(void) {
  struct itimerspec soon = {.it_value = {.tv_nsec = 1000000}};
  must(timerfd_settime(a, 0, &soon, NULL) == 0);
  sleep_ms(5);
}

/* System V and POSIX queues. */
static int id;
static void make_sem(void) {
  id = semget(IPC_PRIVATE, 1, 0600);
  need(id >= 0);
}
static long do_semop(void) { return semop(id, &(struct sembuf){.sem_op = -1}, 1); }
static long do_semtimedop(void) {
  struct timespec time = time_left();
  return semtimedop(id, &(struct sembuf){.sem_op = -1}, 1, timeout_ms < 0 ? NULL : &time);
}
static void post_sem(void) { must(semop(id, &(struct sembuf){.sem_op = 1}, 1) == 0); }
static void remove_sem(void) { semctl(id, 0, IPC_RMID); }
static struct {
  long type;
  char text[1000];
} message = {.type = 1};
static void make_msg(void) {
  id = msgget(IPC_PRIVATE, 0600);
  need(id >= 0);
}
static long do_msgrcv(void) { return msgrcv(id, &message, 1000, 0, 0); }
static void send_msg(void) { must(msgsnd(id, &message, 10, 0) == 0); }
static void make_full_msg(void) {
  make_msg();
  while (msgsnd(id, &message, 1000, IPC_NOWAIT) == 0) {}
}
static long do_msgsnd(void) { return msgsnd(id, &message, 1000, 0); }
static void receive_msg(void) { must(msgrcv(id, &message, 1000, 0, 0) == 1000); }
static void remove_msg(void) { msgctl(id, IPC_RMID, NULL); }
static mqd_t queue;
static void make_mq(void) {
  snprintf(path, sizeof path, "/entresol-%d", getpid());
  struct mq_attr attributes = {.mq_maxmsg = 1, .mq_msgsize = 16};
  queue = mq_open(path, O_RDWR | O_CREAT, 0600, &attributes);
  need(queue >= 0);
}
static struct timespec deadline(void) { return timespec_of(now_ns(CLOCK_REALTIME) + timeout_ms * INT64_C(1000000)); }
static long do_mq_receive(void) {
  struct timespec until = deadline();
  if (timeout_ms < 0) return mq_receive(queue, buffer, 16, NULL);
  return mq_timedreceive(queue, buffer, 16, NULL, &until);
}
static void send_mq(void) { must(mq_send(queue, "x", 1, 0) == 0); }
static void make_full_mq(void) {
  make_mq();
  send_mq();
}
static long do_mq_send(void) {
  struct timespec until = deadline();
  if (timeout_ms < 0) return mq_send(queue, "y", 1, 0);
  return mq_timedsend(queue, "y", 1, 0, &until);
}
static void receive_mq(void) { must(mq_receive(queue, buffer, 16, NULL) == 1); }
static void remove_mq(void) {
  mq_close(queue);
  mq_unlink(path);
}

/* Locks of files. */
static void make_files(void) {
  snprintf(path, sizeof path, "/tmp/entresol-lock-%d", getpid());
  a = open(path, O_RDWR | O_CREAT, 0600);
  b = open(path, O_RDWR);
  c = -1;
  need(a >= 0 && b >= 0 && flock(a, LOCK_EX) == 0);
}
static long do_flock(void) { return flock(b, LOCK_EX); }
static void unlock_file(void) { must(flock(a, LOCK_UN) == 0); }
static struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
static void make_locked(void) {
  make_files();
  struct flock lock = whole;
  need(fcntl(a, F_OFD_SETLK, &lock) == 0);
}
static long do_setlkw(void) {
  struct flock lock = whole;
  return fcntl(b, F_OFD_SETLKW, &lock);
}
static void release_lock(void) {
  struct flock lock = whole;
  lock.l_type = F_UNLCK;
  must(fcntl(a, F_OFD_SETLK, &lock) == 0);
}
static void remove_files(void) {
  close_all();
  unlink(path);
}

/* Children. */
static pid_t child;
static void make_child(void) {
  child = fork();
  need(child != -1);
  if (child == 0) {
    for (;;) pause();
  }
}
static void kill_child(void) { must(kill(child, SIGKILL) == 0); }
static long do_wait4(void) { return wait4(child, NULL, 0, NULL) == child ? 0 : -1; }
static long do_waitid(void) {
  siginfo_t info;
  return waitid(P_PID, child, &info, WEXITED);
}
static void reap(void) {
  kill(child, SIGKILL);
  while (waitpid(child, NULL, 0) == -1 && errno == EINTR) {}
}

static const struct wait_case {
  const char *call, *way;
  void (*make)(void);
  long (*wait)(void);
  void (*satisfy)(void); /* what it waits for */
  void (*end)(void);
  bool ready_first; /* it can be satisfied before the call */
  bool times_out;
} waits[] = {
    {"read", "pipe", make_pipe, do_read, feed_pipe, close_all, true, false},
    {"readv", "pipe", make_pipe, do_readv, feed_pipe, close_all, true, false},
    {"write", "full pipe", make_full_pipe, do_write, drain_pipe, close_all, true, false},
    {"writev", "full pipe", make_full_pipe, do_writev, drain_pipe, close_all, true, false},
    {"splice", "pipe to file", make_pipe_and_file, do_splice, feed_pipe, close_all, true, false},
    {"sendfile", "full pipe", make_full_pipe_and_file, do_sendfile, drain_pipe, close_all, true, false},
    {"open", "fifo", make_fifo, do_open, open_other_end, remove_fifo, false, false},
    {"recvfrom", "stream", make_sockets, do_recv, feed_pipe, close_all, true, true},
    {"recvmsg", "stream", make_sockets, do_recvmsg, feed_pipe, close_all, true, true},
    {"recvmmsg", "stream", make_sockets, do_recvmmsg, feed_pipe, close_all, true, true},
    {"sendto", "full stream", make_full_sockets, do_send, drain_sockets, close_all, true, true},
    {"sendmsg", "full stream", make_full_sockets, do_sendmsg, drain_sockets, close_all, true, true},
    {"accept", "unix", make_listener, do_accept, connect_to_it, close_all, true, true},
    {"connect", "full queue", make_full_listener, do_connect, accept_one, close_all, true, true},
    {"poll", "pipe", make_pipe, do_poll, feed_pipe, close_all, true, true},
    {"ppoll", "pipe", make_pipe, do_ppoll, feed_pipe, close_all, true, true},
    {"select", "pipe", make_pipe, do_select, feed_pipe, close_all, true, true},
    {"pselect6", "pipe, mask", make_pipe, do_pselect, feed_pipe, close_all, true, true},
    {"epoll_wait", "pipe", make_epoll, do_epoll_wait, feed_pipe, close_all, true, true},
    {"epoll_pwait", "pipe, mask", make_epoll, do_epoll_pwait, feed_pipe, close_all, true, true},
    {"epoll_pwait2", "pipe", make_epoll, do_epoll_pwait2, feed_pipe, close_all, true, true},
    {"read", "eventfd", make_eventfd, do_eventfd_read, feed_eventfd, close_all, true, false},
    {"read", "timerfd", make_timerfd, do_eventfd_read, feed_timerfd, close_all, true, false},
    {"semop", "-1", make_sem, do_semop, post_sem, remove_sem, true, false},
    {"semtimedop", "-1", make_sem, do_semtimedop, post_sem, remove_sem, true, true},
    {"msgrcv", "any type", make_msg, do_msgrcv, send_msg, remove_msg, true, false},
    {"msgsnd", "full queue", make_full_msg, do_msgsnd, receive_msg, remove_msg, true, false},
    {"mq_timedreceive", "empty", make_mq, do_mq_receive, send_mq, remove_mq, true, true},
    {"mq_timedsend", "full", make_full_mq, do_mq_send, receive_mq, remove_mq, true, true},
    {"flock", "LOCK_EX", make_files, do_flock, unlock_file, remove_files, true, false},
    {"fcntl", "F_OFD_SETLKW", make_locked, do_setlkw, release_lock, remove_files, true, false},
    {"wait4", "pid", make_child, do_wait4, kill_child, reap, true, false},
    {"waitid", "P_PID, WEXITED", make_child, do_waitid, kill_child, reap, true, false},
};

static void note(const struct wait_case *w, const char *how, long value) {
  char way[64];
  int error = errno;
  snprintf(way, sizeof way, "%s; %s", w->way, how);
  errno = error;
  tried(w->call, way, value);
}

static atomic_int at_wait, handled;
static const char *how_it_ends;
static void *waiter(void *argument) {
  const struct wait_case *w = argument;
  at_wait = gettid();
  long value = w->wait();
  note(w, how_it_ends, value);
  return NULL;
}

static pthread_t begin(const struct wait_case *w, const char *how) {
  at_wait = 0;
  how_it_ends = how;
  w->make();
  pthread_t thread = start(waiter, (void *)w);
  wait_until(at_wait);
  /* It may lose its CPU before the call, for as long as others like: a signal that comes then ends no wait. */
  wait_until(state_of(at_wait) == 'S');
  sleep_ms(8);
  return thread;
}

CASE(it_comes) {
  timeout_ms = -1;
  load_begin();
  for (int i = 0; i < COUNT(waits); i++) {
    pthread_t thread = begin(&waits[i], "later");
    waits[i].satisfy();
    finish(thread);
    waits[i].end();
  }
  load_end();
}

CASE(it_is_there) {
  timeout_ms = -1;
  for (int i = 0; i < COUNT(waits); i++) {
    if (!waits[i].ready_first) continue;
    waits[i].make();
    waits[i].satisfy();
    note(&waits[i], "at once", waits[i].wait());
    waits[i].end();
  }
}

CASE(time_is_over) {
  timeout_ms = 30;
  load_begin();
  for (int i = 0; i < COUNT(waits); i++) {
    if (!waits[i].times_out) continue;
    waits[i].make();
    int64_t before = now_ns(CLOCK_MONOTONIC);
    note(&waits[i], "30 ms", waits[i].wait());
    /* Sockets count in host ticks and round down to them. */
    must(now_ns(CLOCK_MONOTONIC) - before >= 25000000);
    waits[i].end();
  }
  load_end();
}

static void on_signal(int signal) {
  (void)signal;
  handled++;
}

static void interrupt_them(const char *how, int flags, int timeout) {
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
  need(sigaction(SIGUSR1, &action, NULL) == 0);
  timeout_ms = timeout;
  load_begin();
  for (int i = 0; i < COUNT(waits); i++) {
    if (timeout >= 0 && !waits[i].times_out) continue;
    handled = 0;
    pthread_t thread = begin(&waits[i], how);
    pthread_kill(thread, SIGUSR1);
    wait_until(handled == 1);
    /* Those that go on need it; of the others it is left over. */
    sleep_ms(8);
    if (waits[i].satisfy != open_other_end || flags == SA_RESTART) waits[i].satisfy();
    finish(thread);
    waits[i].end();
  }
  load_end();
}

CASE(a_handler_that_restarts) { interrupt_them("SA_RESTART", SA_RESTART, -1); }
CASE(a_handler_that_does_not) { interrupt_them("handler", 0, -1); }
CASE(a_handler_and_a_timeout) { interrupt_them("SA_RESTART, 100 s", SA_RESTART, 100000); }
