//@ engines
/* O_NONBLOCK, set while threads wait: they go on waiting, also when signals of faults arrive from elsewhere, which a host thread
 * cannot block and which end its call. */
#include "../check.h"
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>

enum { EVENT, PIPE, SOCKET, FULL, LISTENER, KINDS, ROUNDS = 20 };
static const char *names[] = {"eventfd", "pipe", "socket", "full pipe", "listener"};
static int ends[2];
static _Atomic pid_t waiter;
static atomic_int back, handled;

static void note(int signal) { handled += signal > 0; }

static long wait_for(int kind) {
  static char bytes[65536];
  switch (kind) {
  case EVENT: return read(ends[0], bytes, 8);
  case SOCKET: return recv(ends[0], bytes, 8, 0);
  case FULL: return write(ends[1], bytes, 1);
  case LISTENER: return accept(ends[0], NULL, NULL) >= 0;
  default: return read(ends[0], bytes, 8);
  }
}

static void *wait_there(void *kind) {
  sigset_t all;
  sigfillset(&all);
  need(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
  waiter = gettid();
  long answer = wait_for((int)(intptr_t)kind);
  int error = errno;
  back = 1;
  errno = error;
  say("%s: %s", names[(intptr_t)kind], result(answer));
  return NULL;
}

static void set_up(int kind) {
  static char bytes[65536];
  if (kind == EVENT) ends[0] = ends[1] = eventfd(0, 0);
  if (kind == PIPE || kind == FULL) need(pipe(ends) == 0);
  if (kind == FULL) need(write(ends[1], bytes, 65536) == 65536);
  if (kind == SOCKET) need(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  if (kind == LISTENER) {
    struct sockaddr_un any = {.sun_family = AF_UNIX};
    ends[0] = socket(AF_UNIX, SOCK_STREAM, 0);
    ends[1] = socket(AF_UNIX, SOCK_STREAM, 0);
    need(bind(ends[0], (void *)&any, sizeof any.sun_family) == 0 && listen(ends[0], 1) == 0);
  }
}

static void let_go(int kind) {
  static char bytes[65536];
  if (kind == FULL) need(read(ends[0], bytes, 65536) == 65536);
  if (kind == EVENT || kind == PIPE || kind == SOCKET) need(write(ends[1], &(uint64_t){1}, 8) == 8);
  if (kind == LISTENER) {
    struct sockaddr_un at;
    socklen_t length = sizeof at;
    need(getsockname(ends[0], (void *)&at, &length) == 0 && connect(ends[1], (void *)&at, length) == 0);
  }
}

CASE(a_wait_goes_on) {
  static const int faults[] = {SIGSYS, SIGBUS, SIGFPE, SIGTRAP};
  struct sigaction action = {.sa_handler = note};
  for (int i = 0; i < COUNT(faults); i++) need(sigaction(faults[i], &action, NULL) == 0);
  for (int kind = 0; kind < KINDS; kind++) {
    set_up(kind);
    waiter = back = handled = 0;
    pthread_t thread = start(wait_there, (void *)(intptr_t)kind);
    wait_until(waiter != 0 && state_of(waiter) == 'S');
    int fd = ends[kind == FULL];
    need(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0);
    for (int round = 0; round < ROUNDS; round++) {
      int before = handled;
      pid_t target = getpid(), child = fork();
      need(child != -1);
      if (child == 0) _exit(kill(target, faults[round % COUNT(faults)]));
      wait_until(handled > before);
      need(waitpid(child, NULL, 0) == child);
    }
    say("%s: %d signals, back %d", names[kind], handled, back);
    let_go(kind);
    finish(thread);
    close(ends[0]);
    close(ends[1]);
  }
}

/* One byte for two readers, after which the other one waits on. */
CASE(one_of_two) {
  need(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  back = 0;
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) {
    waiter = 0;
    threads[i] = start(wait_there, (void *)(intptr_t)SOCKET);
    wait_until(waiter != 0 && state_of(waiter) == 'S');
  }
  need(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
  need(write(ends[1], "a", 1) == 1);
  wait_until(back);
  need(write(ends[1], "b", 1) == 1);
  finish(threads[0]);
  finish(threads[1]);
  close(ends[0]);
  close(ends[1]);
}

static void *wait_for_signal(void *kind) {
  waiter = gettid();
  long answer = wait_for((int)(intptr_t)kind);
  say("%s: %s", names[(intptr_t)kind], result(answer));
  return NULL;
}
CASE(a_signal_ends_it) {
  struct sigaction action = {.sa_handler = note};
  need(sigaction(SIGUSR1, &action, NULL) == 0);
  for (int kind = 0; kind < KINDS; kind++) {
    set_up(kind);
    waiter = 0;
    pthread_t thread = start(wait_for_signal, (void *)(intptr_t)kind);
    wait_until(waiter != 0 && state_of(waiter) == 'S');
    int fd = ends[kind == FULL];
    need(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0);
    need(pthread_kill(thread, SIGUSR1) == 0);
    finish(thread);
    close(ends[0]);
    close(ends[1]);
  }
}

/* A pipe looks at the flag again once it has taken a part, a socket does not. */
static char megabyte[1 << 20];
static void *send_all(void *way) {
  struct iovec halves[2] = {{megabyte, 100000}, {megabyte, 100000}};
  waiter = gettid();
  long sent = way == NULL ? write(ends[1], megabyte, sizeof megabyte) : way == ends ? writev(ends[1], halves, 2) : 0;
  if (way == megabyte) sent = send(ends[1], megabyte, sizeof megabyte, 0) == sizeof megabyte;
  back = 1;
  say("sent %s", result(sent));
  return NULL;
}
CASE(a_part_is_sent) {
  static void *ways[] = {NULL, ends, megabyte};
  for (int i = 0; i < COUNT(ways); i++) {
    static char some[65536];
    need((ways[i] == megabyte ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)) == 0);
    back = waiter = 0;
    pthread_t thread = start(send_all, ways[i]);
    wait_until(waiter != 0 && state_of(waiter) == 'S');
    need(fcntl(ends[1], F_SETFL, fcntl(ends[1], F_GETFL) | O_NONBLOCK) == 0);
    need(read(ends[0], some, 4096) == 4096);
    if (ways[i] == megabyte) {
      settle();
      say("back %d", back);
    } else {
      wait_until(back);
    }
    need(fcntl(ends[0], F_SETFL, fcntl(ends[0], F_GETFL) | O_NONBLOCK) == 0);
    while (!back)
      if (read(ends[0], some, sizeof some) < 0) sched_yield();
    finish(thread);
    close(ends[0]);
    close(ends[1]);
  }
}

/* Threads that wait for messages of a queue, each of which gets one. */
enum { RECEIVERS = 8 };
static atomic_int receivers[RECEIVERS];
static void *receive_one(void *number) {
  char bytes[8];
  atomic_store(&receivers[(intptr_t)number], gettid());
  return (void *)(mq_receive(ends[0], bytes, sizeof bytes, NULL) == 1 ? NULL : "none");
}
CASE(of_a_queue) {
  struct mq_attr size = {.mq_maxmsg = 1, .mq_msgsize = 8}, nonblocking = {.mq_flags = O_NONBLOCK};
  char name[40];
  snprintf(name, sizeof name, "/flag-meanwhile-%d", getpid());
  need((ends[0] = mq_open(name, O_RDWR | O_CREAT, 0600, &size)) >= 0 && mq_unlink(name) == 0);
  pthread_t threads[RECEIVERS];
  for (int i = 0; i < RECEIVERS; i++) threads[i] = start(receive_one, (void *)(intptr_t)i);
  for (int i = 0; i < RECEIVERS; i++) wait_until(receivers[i] && state_of(receivers[i]) == 'S');
  need(mq_setattr(ends[0], &nonblocking, NULL) == 0);
  for (int i = 0; i < RECEIVERS; i++) wait_until(mq_send(ends[0], "a", 1, 0) == 0);
  for (int i = 0; i < RECEIVERS; i++) must(finish(threads[i]) == NULL);
  say("all got one");
  close(ends[0]);
}

/* A write that is larger than the pipe ends with what it has written when it finds the flag. */
enum { LARGE = 300000 };
static char large[LARGE];
static void *write_all(void *unused) {
  sigset_t all;
  sigfillset(&all);
  need(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
  waiter = gettid();
  ssize_t written = write(ends[1], large, LARGE);
  int room = fcntl(ends[0], F_GETPIPE_SZ);
  say("wrote %zd pipes full and %zd", written / room, written % room);
  back = 1;
  return unused;
}
static void write_beside_the_flag(bool named) {
  if (named) {
    char name[60];
    snprintf(name, sizeof name, "/tmp/entresol-flagged-%d", getpid());
    need(mkfifo(name, 0600) == 0);
    ends[0] = open(name, O_RDWR), ends[1] = open(name, O_WRONLY);
    need(ends[0] >= 0 && ends[1] >= 0 && unlink(name) == 0);
  } else {
    need(pipe(ends) == 0);
  }
  back = waiter = 0;
  pthread_t thread = start(write_all, NULL);
  int there = 0, room = fcntl(ends[0], F_GETPIPE_SZ);
  wait_until(ioctl(ends[0], FIONREAD, &there) == 0 && there == room && state_of(waiter) == 'S');
  need(fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
  need(read(ends[0], large, room) == room);
  wait_until(back);
  finish(thread);
  say("left %s", ioctl(ends[0], FIONREAD, &there) == 0 && there == room ? "a pipe full" : "another number");
  close(ends[0]), close(ends[1]);
}
CASE(a_large_write_to_a_pipe) { write_beside_the_flag(false); }
CASE(a_large_write_to_a_fifo) { write_beside_the_flag(true); }
