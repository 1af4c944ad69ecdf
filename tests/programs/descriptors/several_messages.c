//@ engines
/* recvmmsg and sendmmsg: which of several messages wait for more, and what is said of those that failed. */
#include "../check.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { MANY = 8, EACH = 50 };

/* `n` messages of one byte each, in buffers of their own. */
struct batch {
  struct mmsghdr head[2048];
  struct iovec part[2048];
  char byte[2048];
};
static struct mmsghdr *prepare(struct batch *batch, int n) {
  memset(batch->head, 0, sizeof batch->head);
  for (int i = 0; i < n; i++) {
    batch->part[i] = (struct iovec){.iov_base = &batch->byte[i], .iov_len = 1};
    batch->byte[i] = 'x';
    batch->head[i].msg_hdr.msg_iov = &batch->part[i];
    batch->head[i].msg_hdr.msg_iovlen = 1;
  }
  return batch->head;
}
static struct batch batch, other;

static void pair(int ends[2]) { need(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0); }
static void put(int fd, int n) {
  for (int i = 0; i < n; i++) need(send(fd, "y", 1, 0) == 1);
}
static void nonblocking(int fd) { need(fcntl(fd, F_SETFL, O_NONBLOCK) == 0); }
static const char *receive(int fd, int n, int flags, struct timespec *time) {
  return result(recvmmsg(fd, prepare(&batch, n), n, flags, time));
}

/* What does not wait takes what there is. */
CASE(nonblocking) {
  int ends[2];
  for (int how = 0; how < 2; how++) {
    int flags = how ? MSG_DONTWAIT : 0;
    pair(ends);
    if (!how) nonblocking(ends[1]);
    say("none: %s", receive(ends[1], 4, flags, NULL));
    put(ends[0], 2);
    say("two: %s", receive(ends[1], 4, flags, NULL));
    say("lengths %u %u %u", batch.head[0].msg_len, batch.head[1].msg_len, batch.head[2].msg_len);
    put(ends[0], 5);
    say("five: %s", receive(ends[1], 3, flags, NULL));
    say("the rest: %s", receive(ends[1], 3, flags, NULL));
    struct timespec bad = {0, -1}, time = {1, 0};
    say("time %s", receive(ends[1], 3, flags, &bad));
    put(ends[0], 1);
    say("in time %s", receive(ends[1], 3, flags, &time));
    must(time.tv_sec == 0 && time.tv_nsec > 500000000);
    say("none asked for: %s", receive(ends[1], 0, flags, NULL));
    say("closed: %s", receive(-1, 1, flags, NULL));
    close(ends[0]), close(ends[1]);
  }
}

/* An error after the first message is for the next call. */
CASE(errors_are_kept) {
  int ends[2], error;
  socklen_t size = sizeof error;
  for (int round = 0; round < 2; round++) {
    pair(ends), nonblocking(ends[1]), put(ends[0], 3);
    prepare(&batch, 3);
    batch.head[1].msg_hdr.msg_iov = (void *)1;
    say("until the bad one: %s", result(recvmmsg(ends[1], batch.head, 3, 0, NULL)));
    if (round == 0) {
      say("next %s", receive(ends[1], 3, 0, NULL));
    } else {
      need(getsockopt(ends[1], SOL_SOCKET, SO_ERROR, &error, &size) == 0);
      say("option %s", errname(error));
    }
    say("then %s", receive(ends[1], 3, 0, NULL));
    close(ends[0]), close(ends[1]);
  }
}

/* A port of which nobody knows. */
CASE(refused) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  int fd = socket(AF_INET, SOCK_DGRAM, 0), gone = socket(AF_INET, SOCK_DGRAM, 0);
  need(bind(gone, (void *)&address, size) == 0 && getsockname(gone, (void *)&address, &size) == 0);
  need(connect(fd, (void *)&address, size) == 0 && close(gone) == 0);
  for (int wait = 0; wait < 2; wait++) {
    if (!wait) nonblocking(fd);
    else need(fcntl(fd, F_SETFL, 0) == 0);
    need(send(fd, "x", 1, 0) == 1);
    say("received %s", receive(fd, 2, 0, NULL));
    need(send(fd, "x", 1, 0) == 1);
    say("sent %s", result(sendmmsg(fd, prepare(&batch, 2), 2, 0)));
  }
  close(fd);
}

static int source;
static void *send_later(void *n) {
  for (int i = 0; i < (int)(intptr_t)n; i++) {
    sleep_ms(60);
    put(source, 1);
  }
  return NULL;
}

/* The time is looked at after each message, so the first may come late. */
CASE(time_limit) {
  int ends[2];
  pair(ends), source = ends[0];
  struct timespec time = {0, 20000000};
  pthread_t sender = start(send_later, (void *)1);
  say("late %s", receive(ends[1], 3, 0, &time));
  say("left %ld %ld", (long)time.tv_sec, time.tv_nsec);
  finish(sender);
  time = (struct timespec){0, 90000000};
  sender = start(send_later, (void *)2);
  say("two %s", receive(ends[1], 3, 0, &time));
  finish(sender);
  time = (struct timespec){30, 0};
  sender = start(send_later, (void *)1);
  say("first %s", receive(ends[1], 3, MSG_WAITFORONE, &time));
  must(time.tv_sec == 29 && time.tv_nsec < 960000000);
  finish(sender);
  struct timeval limit = {0, 200000};
  need(setsockopt(ends[1], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
  sender = start(send_later, (void *)2);
  say("of the socket: %s", receive(ends[1], 3, 0, NULL));
  say("none %s", receive(ends[1], 3, MSG_WAITFORONE, NULL));
  finish(sender);
  close(ends[0]), close(ends[1]);
}

/* Threads that wait for the first message of several, on one socket or each on its own. */
static int sinks[MANY];
static atomic_int got, waiting;
static void *take(void *at) {
  struct batch *own = calloc(1, sizeof *own);
  need(own != NULL);
  waiting++;
  for (;;) {
    int n = recvmmsg(sinks[(intptr_t)at], prepare(own, 4), 4, MSG_WAITFORONE, NULL);
    must(n > 0);
    bool last = false;
    for (int i = 0; i < n; i++) last |= own->byte[i] == 'z';
    got += n;
    if (last) break;
  }
  free(own);
  return NULL;
}
static void wait_for_one(int threads, bool together) {
  int ends[2], sources[MANY];
  pthread_t all[MANY];
  got = waiting = 0;
  for (int i = 0; i < threads; i++) {
    if (i == 0 || !together) pair(ends);
    sources[i] = ends[0], sinks[i] = ends[1];
    all[i] = start(take, (void *)(intptr_t)i);
  }
  wait_until(waiting == threads);
  for (int round = 0; round < EACH; round++)
    for (int i = 0; i < threads; i++) put(sources[i], 1 + round % 2);
  wait_until(got == threads * EACH * 3 / 2);
  /* One at a time: a thread takes no other's end. */
  for (int i = 0; i < threads; i++) {
    need(send(sources[i], "z", 1, 0) == 1);
    wait_until(got == threads * EACH * 3 / 2 + i + 1);
  }
  for (int i = 0; i < threads; i++) finish(all[i]);
  say("%d threads: %d messages", threads, got);
  for (int i = 0; i < (together ? 1 : threads); i++) close(sources[i]), close(sinks[i]);
}
CASE(wait_for_one) {
  wait_for_one(1, false);
  wait_for_one(MANY, false);
  wait_for_one(MANY, true);
}

/* A signal before the first message ends the wait or has it start over. */
static atomic_int handled;
static void note(int signal) { (void)signal, handled++; }
static pthread_t main_thread;
static void *disturb(void *n) {
  sleep_ms(60);
  need(pthread_kill(main_thread, SIGUSR1) == 0);
  sleep_ms(60);
  put(source, (int)(intptr_t)n);
  return NULL;
}
CASE(signals) {
  int ends[2];
  main_thread = pthread_self();
  for (int flags = 0; flags <= SA_RESTART; flags += SA_RESTART) {
    for (int several = 0; several < 2; several++) {
      pair(ends), source = ends[0], handled = 0;
      struct sigaction action = {.sa_handler = note, .sa_flags = flags};
      need(sigaction(SIGUSR1, &action, NULL) == 0);
      pthread_t disturber = start(disturb, (void *)(intptr_t)(1 + several));
      const char *received = receive(ends[1], 2, several ? 0 : MSG_WAITFORONE, NULL);
      say("%s, handled %d", received, handled);
      finish(disturber);
      close(ends[0]), close(ends[1]);
    }
  }
}

/* Sending: what does not fit is sent later, or not at all; an error ends it, and is not told after a message. */
static void *drain(void *fd) {
  char byte;
  for (int n = 0;; n++) {
    if (n % 7 == 0) sleep_ms(1);
    need(recv((int)(intptr_t)fd, &byte, 1, 0) == 1);
    if (byte == 'z') return (void *)(intptr_t)n;
  }
}
CASE(sending) {
  int ends[2];
  pair(ends), nonblocking(ends[0]);
  int first = sendmmsg(ends[0], prepare(&other, 2000), 2000, 0);
  must(first > 0 && first < 1000);
  say("full: %s", result(sendmmsg(ends[0], other.head, 2, 0)));
  close(ends[0]), close(ends[1]);

  pair(ends);
  pthread_t reader = start(drain, (void *)(intptr_t)ends[1]);
  say("waited: %s", result(sendmmsg(ends[0], prepare(&other, 60), 60, 0)));
  say("at most: %s", result(sendmmsg(ends[0], prepare(&other, 2000), 2000, 0)));
  need(send(ends[0], "z", 1, 0) == 1);
  say("read %d", (int)(intptr_t)finish(reader));

  prepare(&other, 5);
  other.head[2].msg_hdr.msg_iov = (void *)1;
  say("until the bad one: %s", result(sendmmsg(ends[0], other.head, 5, 0)));
  say("from it: %s", result(sendmmsg(ends[0], other.head + 2, 3, 0)));
  say("read %s", receive(ends[1], 5, MSG_DONTWAIT, NULL));
  say("none: %s", result(sendmmsg(ends[0], other.head, 0, 0)));
  say("to none: %s", result(sendmmsg(-1, other.head, 1, 0)));
  close(ends[1]);
  say("other end closed: %s", result(sendmmsg(ends[0], prepare(&other, 3), 3, MSG_NOSIGNAL)));
  close(ends[0]);
}

/* Of a stream: messages longer than what fits are sent whole. */
static size_t drained;
static void *drain_stream(void *fd) {
  static char bytes[65536];
  ssize_t n;
  drained = 0;
  while ((n = recv((int)(intptr_t)fd, bytes, sizeof bytes, 0)) > 0) drained += n;
  return NULL;
}
CASE(stream) {
  int ends[2];
  static char bytes[600000];
  need(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  pthread_t reader = start(drain_stream, (void *)(intptr_t)ends[1]);
  prepare(&other, 3);
  for (int i = 0; i < 3; i++) other.part[i] = (struct iovec){.iov_base = bytes, .iov_len = sizeof bytes};
  int sent = sendmmsg(ends[0], other.head, 3, 0);
  say("sent %d: %u %u %u", sent, other.head[0].msg_len, other.head[1].msg_len, other.head[2].msg_len);
  close(ends[0]);
  finish(reader);
  say("read %zu", drained);
  close(ends[1]);
}
