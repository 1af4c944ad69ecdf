/* Waiting calls that a signal cuts short: with a handler, with SA_RESTART, and without a handler ("Interruption of
 * system calls" in signal(7)). */
#include "../check.h"
#include <linux/io_uring.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <fcntl.h>

struct message {
  long type;
  char text[8];
};
static int fds[2], stream[2], timed[2], full[2], queue, semaphore, epoll_fd, ring, file;
static atomic_int at_wait, handled;
static void note_it(int signal) { handled += signal > 0; }

static long by_poll(void) { return poll(&(struct pollfd){.fd = fds[0], .events = POLLIN}, 1, -1); }
static long by_timed_poll(void) { return poll(&(struct pollfd){.fd = fds[0], .events = POLLIN}, 1, 20000); }
static long by_select(void) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(fds[0], &set);
  struct timeval time = {.tv_sec = 20};
  return select(fds[0] + 1, &set, NULL, NULL, &time);
}
static long by_epoll(void) {
  struct epoll_event event;
  return epoll_wait(epoll_fd, &event, 1, 20000);
}
static long by_msgrcv(void) {
  struct message message;
  return msgrcv(queue, &message, 8, 1, 0);
}
static long by_semop(void) {
  struct sembuf down = {0, -1, 0};
  return semop(semaphore, &down, 1);
}
static long by_uring(void) { return syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0); }
static long by_read(void) {
  char byte;
  return read(stream[0], &byte, 1);
}
static long by_timed_read(void) {
  char byte;
  return read(timed[0], &byte, 1);
}
static long by_timed_sendfile(void) {
  off_t start = 0;
  return sendfile(full[0], file, &start, 4096);
}
static long by_timed_pwritev2(void) {
  char bytes[4096] = {0};
  struct iovec vector = {bytes, sizeof bytes};
  return pwritev2(full[0], &vector, 1, -1, 0);
}

static const struct {
  const char *name;
  long (*wait)(void);
} calls[] = {
    {"poll", by_poll},           {"poll with a time", by_timed_poll}, {"select", by_select},
    {"epoll_wait", by_epoll},    {"msgrcv", by_msgrcv},               {"semop", by_semop},
    {"io_uring_enter", by_uring}, {"read", by_read},                   {"read with a time", by_timed_read},
    {"sendfile with a time", by_timed_sendfile}, {"pwritev2 with a time", by_timed_pwritev2},
};

static struct {
  pthread_t thread;
  long answer;
  int error;
} waits[COUNT(calls)];
static void *wait_in_call(void *index) {
  intptr_t i = (intptr_t)index;
  sigset_t none;
  sigemptyset(&none);
  need(pthread_sigmask(SIG_SETMASK, &none, NULL) == 0);
  at_wait++;
  waits[i].answer = calls[i].wait();
  waits[i].error = errno;
  return NULL;
}
static bool is_there(int i) { return calls[i].wait != by_uring || ring >= 0; }
static void begin(int i) {
  if (is_there(i)) need(pthread_create(&waits[i].thread, NULL, wait_in_call, (void *)(intptr_t)i) == 0);
}
static void end(int i) {
  if (!is_there(i)) return;
  need(pthread_join(waits[i].thread, NULL) == 0);
  errno = waits[i].error;
  say("%s: %s", calls[i].name, result(waits[i].answer));
}

static void fill(int fd) {
  char bytes[4096] = {0};
  while (send(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0) {}
}
static void drain(int fd) {
  char bytes[4096];
  while (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0) {}
}

static void set_up(void) {
  struct timeval twenty = {.tv_sec = 20};
  need(pipe(fds) == 0 && pipe(stream) == 0);
  need(socketpair(AF_UNIX, SOCK_STREAM, 0, timed) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, full) == 0);
  need(setsockopt(timed[0], SOL_SOCKET, SO_RCVTIMEO, &twenty, sizeof twenty) == 0);
  need(setsockopt(full[0], SOL_SOCKET, SO_SNDTIMEO, &twenty, sizeof twenty) == 0);
  need((queue = msgget(IPC_PRIVATE, 0600)) >= 0 && (semaphore = semget(IPC_PRIVATE, 1, 0600)) >= 0);
  need((epoll_fd = epoll_create1(0)) >= 0);
  need(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fds[0], &(struct epoll_event){.events = EPOLLIN}) == 0);
  need((file = open("/proc/self/exe", O_RDONLY)) >= 0);
  struct io_uring_params parameters = {0};
  ring = syscall(SYS_io_uring_setup, 8, &parameters);
  fill(full[0]);
}
static void tear_down(void) {
  msgctl(queue, IPC_RMID, NULL), semctl(semaphore, 0, IPC_RMID);
  for (int i = 0; i < 2; i++) close(fds[i]), close(stream[i]), close(timed[i]), close(full[i]);
  close(epoll_fd), close(ring), close(file);
}

/* What the calls wait for that have begun anew. */
static void feed(void) {
  struct message message = {.type = 1};
  need(write(fds[1], "x", 1) == 1 && write(stream[1], "x", 1) == 1 && write(timed[1], "x", 1) == 1);
  need(msgsnd(queue, &message, 8, 0) == 0);
  drain(full[1]);
}
static void block(int signal) {
  sigset_t set;
  sigemptyset(&set), sigaddset(&set, signal);
  need(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
}

static void cut_all_short(int flags) {
  struct sigaction action = {.sa_handler = note_it, .sa_flags = flags};
  need(sigaction(SIGUSR1, &action, NULL) == 0);
  set_up();
  at_wait = handled = 0;
  int count = 0;
  for (int i = 0; i < COUNT(calls); i++) begin(i), count += is_there(i);
  wait_until(at_wait == count);
  settle();
  for (int i = 0; i < COUNT(calls); i++) {
    if (is_there(i)) need(pthread_kill(waits[i].thread, SIGUSR1) == 0);
  }
  wait_until(handled == count);
  settle();
  feed();
  for (int i = 0; i < COUNT(calls); i++) end(i);
  tear_down();
}
CASE(handler) { cut_all_short(0); }
CASE(handler_with_restart) { cut_all_short(SA_RESTART); }

/* The signal does nothing, but as this thread blocks it, it is kept, and the other thread looks. */
CASE(no_handler) {
  block(SIGURG);
  set_up();
  for (int i = 0; i < COUNT(calls); i++) {
    if (!is_there(i)) continue;
    at_wait = 0;
    begin(i);
    wait_until(at_wait == 1);
    settle();
    need(kill(getpid(), SIGURG) == 0);
    sigset_t left;
    wait_until(sigpending(&left) == 0 && !sigismember(&left, SIGURG));
    feed();
    end(i);
    tear_down();
    set_up();
  }
  tear_down();
}

/* A poll that goes on keeps its time. */
static atomic_int over;
static void *poll_for_400_ms(void *argument) {
  sigset_t none;
  sigemptyset(&none);
  need(pthread_sigmask(SIG_SETMASK, &none, NULL) == 0);
  int64_t began = now_ns(CLOCK_MONOTONIC);
  at_wait = 1;
  say("poll %s", result(poll(NULL, 0, 400)));
  must(now_ns(CLOCK_MONOTONIC) - began >= 400000000);
  over = 1;
  return argument;
}
CASE(time_goes_on) {
  block(SIGURG);
  at_wait = over = 0;
  pthread_t thread;
  need(pthread_create(&thread, NULL, poll_for_400_ms, NULL) == 0);
  wait_until(at_wait);
  /* Were it to begin anew each time, it would never end. */
  for (int round = 0; !over && round < 1000; round++) {
    sleep_ms(5);
    need(kill(getpid(), SIGURG) == 0);
  }
  must(over);
  pthread_join(thread, NULL);
}
