//@ engines
//@ seconds: 60
/* A TCP connection that a read has emptied: what comes next is noticed, whatever it is and whoever causes it. */
#include "../check.h"
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { CROWD = 8 };

static int listener, ours, peer;
static char bytes[4096];

/* Others that wait, so that threads wait for descriptors without a host thread. */
static int quiet[2];
static pthread_t crowd[CROWD];
static void *be_quiet(void *unused) {
  char c;
  need(read(quiet[0], &c, 1) == 1);
  return unused;
}

static void connect_pair(void) {
  struct sockaddr_in address;
  socklen_t size = sizeof address;
  need(getsockname(listener, (void *)&address, &size) == 0);
  peer = socket(AF_INET, SOCK_STREAM, 0);
  need(peer >= 0 && connect(peer, (void *)&address, size) == 0);
  int one = 1;
  need(setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
  ours = accept(listener, NULL, NULL);
  need(ours >= 0);
}

static void disconnect(void) {
  close(ours);
  if (peer >= 0) close(peer);
}

static void begin_case(void) {
  need(pipe(quiet) == 0);
  for (int i = 0; i < CROWD; i++) crowd[i] = start(be_quiet, NULL);
  listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  need(listener >= 0 && bind(listener, (void *)&address, sizeof address) == 0 && listen(listener, 8) == 0);
  connect_pair();
}

static void end_case(void) {
  disconnect();
  close(listener);
  need(write(quiet[1], "12345678", CROWD) == CROWD);
  for (int i = 0; i < CROWD; i++) finish(crowd[i]);
  close(quiet[0]), close(quiet[1]);
}

#define STREAM_CASE(name)                                                                                              \
  static void with_##name(void);                                                                                       \
  CASE(name) {                                                                                                         \
    begin_case();                                                                                                      \
    with_##name();                                                                                                     \
    end_case();                                                                                                        \
  }                                                                                                                    \
  static void with_##name(void)

static atomic_int reader;
static long got;
static int error;
static void *read_once(void *unused) {
  atomic_store(&reader, gettid());
  got = read(ours, bytes, sizeof bytes);
  error = got < 0 ? errno : 0;
  return unused;
}

static pthread_t begin_read(void) {
  atomic_store(&reader, 0);
  pthread_t thread = start(read_once, NULL);
  wait_until(atomic_load(&reader) && state_of(atomic_load(&reader)) == 'S');
  return thread;
}

/* Another thread has waited for the connection and has read all of a message. */
static void read_a_message(void) {
  pthread_t thread = begin_read();
  need(write(peer, "message", 7) == 7);
  finish(thread);
  need(got == 7);
}

static void wait_for(short events) {
  struct pollfd one = {.fd = ours, .events = events};
  need(poll(&one, 1, -1) == 1);
}

static void read_and_say(const char *what) {
  long n = read(ours, bytes, sizeof bytes);
  say("%s: %ld %s", what, n, n < 0 ? errname(errno) : "");
}

STREAM_CASE(more) {
  for (int i = 0; i < 3; i++) read_a_message();
  need(write(peer, "again", 5) == 5);
  read_and_say("more");
}

STREAM_CASE(full_buffer) {
  read_a_message();
  need(write(peer, bytes, sizeof bytes) == sizeof bytes && write(peer, "tail", 4) == 4);
  wait_for(POLLIN);
  long total = 0;
  while (total < (long)sizeof bytes + 4) total += read(ours, bytes, sizeof bytes);
  say("more than a buffer: %ld", total);
}

STREAM_CASE(data_and_end) {
  read_a_message();
  need(write(peer, "last", 4) == 4 && shutdown(peer, SHUT_WR) == 0);
  wait_for(POLLRDHUP);
  read_and_say("data before the end");
  read_and_say("the end");
  read_and_say("the end again");
}

STREAM_CASE(end_while_waiting) {
  read_a_message();
  pthread_t thread = begin_read();
  need(write(peer, "last", 4) == 4 && shutdown(peer, SHUT_WR) == 0);
  finish(thread);
  say("a waiting reader gets %ld", got);
  read_and_say("and then");
}

STREAM_CASE(reset) {
  read_a_message();
  pthread_t thread = begin_read();
  struct linger at_once = {.l_onoff = 1};
  need(setsockopt(peer, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
  close(peer);
  peer = -1;
  finish(thread);
  say("reset: %ld %s", got, errname(error));
  read_and_say("after a reset");
}

STREAM_CASE(urgent) {
  read_a_message();
  need(write(peer, "before", 6) == 6 && send(peer, "!", 1, MSG_OOB) == 1 && write(peer, "after", 5) == 5);
  wait_for(POLLPRI);
  wait_until(ioctl(ours, FIONREAD, &error) == 0 && error >= 6);
  read_and_say("up to the mark");
  read_and_say("behind it");
}

/* At the mark a call that does not wait says EAGAIN while a signal is pending, such as a tick: often enough to meet one. */
STREAM_CASE(urgent_often) {
  read_a_message();
  int reads = 0;
  for (int i = 0; i < 50; i++) {
    need(write(peer, "before", 6) == 6 && send(peer, "!", 1, MSG_OOB) == 1 && write(peer, "after", 5) == 5);
    wait_for(POLLPRI);
    for (long total = 0; total < 11; reads++) {
      long n = read(ours, bytes, sizeof bytes);
      need(n > 0);
      total += n;
    }
  }
  must(reads >= 100);
  say("urgent data often: all read");
}

STREAM_CASE(shut_down_here) {
  read_a_message();
  need(shutdown(ours, SHUT_RD) == 0);
  read_and_say("shut down here");
}

STREAM_CASE(shut_down_while_waiting) {
  read_a_message();
  pthread_t thread = begin_read();
  need(shutdown(ours, SHUT_RD) == 0);
  finish(thread);
  say("shut down under a reader: %ld", got);
}

static void set_nonblocking(int fd) { need(fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) == 0); }

STREAM_CASE(nonblocking) {
  read_a_message();
  set_nonblocking(ours);
  read_and_say("F_SETFL");
  need(fcntl(ours, F_SETFL, O_RDWR) == 0);
  read_a_message();
}

STREAM_CASE(nonblocking_by_ioctl) {
  read_a_message();
  int on = 1;
  need(ioctl(ours, FIONBIO, &on) == 0);
  read_and_say("FIONBIO");
}

STREAM_CASE(nonblocking_by_duplicate) {
  int before = dup(ours);
  read_a_message();
  set_nonblocking(before);
  read_and_say("duplicate of before");
  close(before);
  disconnect(), connect_pair();
  read_a_message();
  int after = fcntl(ours, F_DUPFD, 100);
  set_nonblocking(after);
  read_and_say("duplicate of after");
  close(after);
}

STREAM_CASE(made_nonblocking_by_a_child) {
  read_a_message();
  pid_t child = fork();
  if (child == 0) {
    set_nonblocking(ours);
    _exit(0);
  }
  int status;
  need(waitpid(child, &status, 0) == child && status == 0);
  read_and_say("a child's F_SETFL");
}

/* The receiver is this process: for the sender it could be any. */
STREAM_CASE(passed_on) {
  read_a_message();
  int pair[2];
  need(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 'x';
  struct iovec piece = {&byte, 1};
  struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
  memcpy(CMSG_DATA(header), &ours, sizeof(int));
  need(sendmsg(pair[0], &message, 0) == 1 && recvmsg(pair[1], &message, 0) == 1);
  int other;
  memcpy(&other, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
  set_nonblocking(other);
  read_and_say("F_SETFL of a descriptor that was passed");
  close(other), close(pair[0]), close(pair[1]);
}

STREAM_CASE(time_limit) {
  read_a_message();
  struct timeval limit = {.tv_usec = 30000};
  need(setsockopt(ours, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
  read_and_say("SO_RCVTIMEO");
}

STREAM_CASE(another_file) {
  read_a_message();
  int pipe_ends[2];
  need(pipe(pipe_ends) == 0 && write(pipe_ends[1], "pipe", 4) == 4);
  need(dup2(pipe_ends[0], ours) == ours);
  read_and_say("a pipe in its place");
  close(pipe_ends[1]);
  read_and_say("its end");
  close(pipe_ends[0]);
}

STREAM_CASE(peeked) {
  read_a_message();
  need(write(peer, "look", 4) == 4);
  long n = recv(ours, bytes, sizeof bytes, MSG_PEEK);
  say("peeked: %ld", n);
  read_and_say("taken");
}

STREAM_CASE(other_calls) {
  read_a_message();
  pthread_t thread = begin_read();
  need(write(peer, "x", 1) == 1);
  finish(thread);
  struct iovec pieces[2] = {{bytes, 2}, {bytes + 2, 100}};
  need(write(peer, "vector", 6) == 6);
  say("readv: %zd", readv(ours, pieces, 2));
  struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
  need(write(peer, "message", 7) == 7);
  say("recvmsg: %zd", recvmsg(ours, &message, 0));
  say("recv without waiting: %zd %s", recv(ours, bytes, 10, MSG_DONTWAIT), errname(errno));
  say("read of nothing: %zd", read(ours, bytes, 0));
}

STREAM_CASE(two_readers) {
  read_a_message();
  pthread_t thread = begin_read();
  need(write(peer, "one", 3) == 3);
  finish(thread);
  need(write(peer, "two", 3) == 3);
  read_and_say("the second reader");
}
