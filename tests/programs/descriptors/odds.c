//@ engines
//@ seconds: 60
/* Waits that no table holds: parts, thresholds, edges, several processes, terminals, and what is refused. Each with one thread
 * that waits and with many. */
#define WAITERS 100
#include "waiters.h"
#include "waiter_signals.h"
#include <netinet/in.h>
#include <poll.h>
#include <pty.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

static const int counts[] = {1, WAITERS};
static char data[1 << 20];

static void pairs_of(int count, int type) {
  for (int i = 0; i < count; i++) {
    int two[2];
    need(socketpair(AF_UNIX, type, 0, two) == 0);
    waiters[i].fd = two[0], waiters[i].other = two[1];
  }
}
static void close_pairs(int count) {
  for (int i = 0; i < count; i++) close(waiters[i].fd), close(waiters[i].other);
}
static struct sockaddr_in address;
static int listener(void) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  socklen_t length = sizeof address;
  address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  need(fd >= 0 && !bind(fd, (void *)&address, length) && !listen(fd, 512) && !getsockname(fd, (void *)&address, &length));
  return fd;
}
static int connected(void) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  need(fd >= 0 && connect(fd, (void *)&address, sizeof address) == 0);
  return fd;
}
static void tcp_pairs(int count) {
  int fd = listener();
  for (int i = 0; i < count; i++) {
    waiters[i].other = connected();
    waiters[i].fd = accept(fd, NULL, NULL);
    need(waiters[i].fd >= 0);
  }
  close(fd);
}

static long receive_ten(struct waiter *w) { return recv(w->fd, w->bytes, 10, MSG_WAITALL); }
static long receive_ten_by_parts(struct waiter *w) {
  struct iovec parts[3] = {{w->bytes, 4}, {w->bytes + 4, 0}, {w->bytes + 4, 6}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
  return recvmsg(w->fd, &message, MSG_WAITALL);
}
static long receive_some(struct waiter *w) { return recv(w->fd, w->bytes, 10, 0); }
static long peek(struct waiter *w) { return recv(w->fd, w->bytes, 10, MSG_PEEK); }
static long read_some(struct waiter *w) { return read(w->fd, w->bytes, 10); }
static bool has_taken_all(int fd) {
  int left;
  need(ioctl(fd, FIONREAD, &left) == 0);
  return left == 0;
}

/* A peer that sends a byte at a time. */
CASE(all_of_it) {
  long (*calls[])(struct waiter *) = {receive_ten, receive_ten_by_parts};
  for (int k = 0; k < COUNT(counts); k++)
    for (int call = 0; call < COUNT(calls); call++)
      for (int kind = 0; kind < 2; kind++) {
        kind ? tcp_pairs(counts[k]) : pairs_of(counts[k], SOCK_STREAM);
        begin(counts[k], calls[call]);
        for (int byte = 0; byte < 10; byte++)
          for (int i = 0; i < counts[k]; i++) need(send(waiters[i].other, "0123456789" + byte, 1, 0) == 1);
        join(kind ? "tcp" : "unix", counts[k]);
        for (int i = 0; i < counts[k]; i++) must(memcmp(waiters[i].bytes, "0123456789", 10) == 0);
        close_pairs(counts[k]);
      }
}

CASE(a_part_and_a_signal) {
  prepare_signals();
  for (int k = 0; k < COUNT(counts); k++)
    for (int signal = 0; signal < 2; signal++) {
      tcp_pairs(counts[k]);
      begin(counts[k], receive_ten);
      for (int i = 0; i < counts[k]; i++) need(send(waiters[i].other, "abc", 3, 0) == 3);
      for (int i = 0; i < counts[k]; i++) wait_until(has_taken_all(waiters[i].fd) && sleeps(&waiters[i]));
      signal_all(counts[k], signal ? SIGUSR2 : SIGUSR1);
      join("receive", counts[k]);
      close_pairs(counts[k]);
    }
}

CASE(a_part_and_the_end) {
  for (int k = 0; k < COUNT(counts); k++) {
    tcp_pairs(counts[k]);
    begin(counts[k], receive_ten);
    for (int i = 0; i < counts[k]; i++) need(send(waiters[i].other, "abc", 3, 0) == 3 && shutdown(waiters[i].other, SHUT_WR) == 0);
    join("receive", counts[k]);
    begin(counts[k], receive_ten);
    join("and then", counts[k]);
    close_pairs(counts[k]);
  }
}

static long send_large(struct waiter *w) { return send(w->fd, data, sizeof data, 0) < (long)sizeof data; }
static long send_file(struct waiter *w) {
  off_t from = 0;
  return sendfile(w->fd, w->number, &from, sizeof data) < (long)sizeof data;
}
CASE(a_part_is_sent_and_a_signal) {
  prepare_signals();
  long (*calls[])(struct waiter *) = {send_large, send_file};
  int file = memfd_create("odds", 0);
  need(file >= 0 && write(file, data, sizeof data) == sizeof data);
  for (int k = 0; k < COUNT(counts); k++)
    for (int call = 0; call < COUNT(calls); call++)
      for (int signal = 0; signal < 2; signal++) {
        pairs_of(counts[k], SOCK_STREAM);
        for (int i = 0; i < counts[k]; i++) {
          struct waiter *w = &waiters[i];
          w->call = calls[call], w->number = file;
          atomic_store(&w->tid, 0), atomic_store(&w->ended, 0);
          w->thread = start(wait_in, w);
        }
        for (int i = 0; i < counts[k]; i++) wait_until(atomic_load(&waiters[i].tid) && sleeps(&waiters[i]) && !has_taken_all(waiters[i].other));
        signal_all(counts[k], signal ? SIGUSR2 : SIGUSR1);
        join(call ? "sendfile" : "send", counts[k]);
        close_pairs(counts[k]);
      }
  close(file);
}

CASE(low_water) {
  for (int k = 0; k < COUNT(counts); k++) {
    long (*calls[])(struct waiter *) = {receive_some, read_some};
    for (int call = 0; call < COUNT(calls); call++) {
      tcp_pairs(counts[k]);
      for (int i = 0; i < counts[k]; i++)
        need(setsockopt(waiters[i].fd, SOL_SOCKET, SO_RCVLOWAT, &(int){4}, sizeof(int)) == 0);
      begin(counts[k], calls[call]);
      for (int i = 0; i < counts[k]; i++) need(send(waiters[i].other, "abc", 3, 0) == 3);
      sched_yield();
      for (int i = 0; i < counts[k]; i++) need(send(waiters[i].other, "d", 1, 0) == 1);
      join("receive", counts[k]);
      close_pairs(counts[k]);
    }
  }
}

/* All see the byte, and nobody takes it. */
CASE(peeking) {
  for (int k = 0; k < COUNT(counts); k++)
    for (int kind = 0; kind < 2; kind++) {
      kind ? tcp_pairs(1) : pairs_of(1, SOCK_STREAM);
      for (int i = 1; i < counts[k]; i++) waiters[i].fd = waiters[0].fd;
      begin(counts[k], peek);
      need(send(waiters[0].other, "x", 1, 0) == 1);
      join("peek", counts[k]);
      say("then: %s", result(recv(waiters[0].fd, data, 10, MSG_DONTWAIT)));
      close_pairs(1);
    }
}

static long wait_for_one(struct waiter *w) {
  struct epoll_event event = {0};
  long n = epoll_wait(w->fd, &event, 1, -1);
  return n < 0 ? n : n * 100 + event.events;
}

CASE(edges) {
  for (int k = 0; k < COUNT(counts); k++) {
    int two[2], set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    need(pipe(two) == 0 && epoll_ctl(set, EPOLL_CTL_ADD, two[0], &event) == 0);
    for (int i = 0; i < counts[k]; i++) waiters[i].fd = set;
    begin(counts[k], wait_for_one);
    for (int i = 0; i < counts[k]; i++) {
      need(write(two[1], "x", 1) == 1);
      wait_until(over(counts[k]) == i + 1);
    }
    join("one for each edge", counts[k]);
    close(two[0]), close(two[1]), close(set);
  }
}

/* Each has an epoll instance of its own, and takes a byte. */
static long take_exclusively(struct waiter *w) {
  int set = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN | EPOLLEXCLUSIVE};
  need(set >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, w->fd, &event) == 0);
  long n;
  do {
    need(epoll_wait(set, &event, 1, -1) == 1);
    n = recv(w->fd, w->bytes, 1, MSG_DONTWAIT);
  } while (n < 0 && errno == EAGAIN);
  close(set);
  return n;
}
CASE(exclusive_waiters) {
  for (int k = 0; k < COUNT(counts); k++) {
    int two[2];
    need(socketpair(AF_UNIX, SOCK_STREAM, 0, two) == 0);
    for (int i = 0; i < counts[k]; i++) waiters[i].fd = two[0];
    begin(counts[k], take_exclusively);
    for (int i = 0; i < counts[k]; i++) need(write(two[1], "x", 1) == 1);
    join("taken", counts[k]);
    close(two[0]), close(two[1]);
  }
}

/* A set to which descriptors are added and from which they are removed while threads wait for it. */
CASE(sets_change) {
  for (int k = 0; k < COUNT(counts); k++) {
    int one[2], other[2], set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    need(pipe(one) == 0 && pipe(other) == 0 && epoll_ctl(set, EPOLL_CTL_ADD, one[0], &event) == 0);
    for (int i = 0; i < counts[k]; i++) waiters[i].fd = set;
    begin(counts[k], wait_for_one);
    need(epoll_ctl(set, EPOLL_CTL_DEL, one[0], NULL) == 0 && write(one[1], "x", 1) == 1 && write(other[1], "x", 1) == 1);
    event.events = EPOLLIN | EPOLLRDNORM;
    need(epoll_ctl(set, EPOLL_CTL_ADD, other[0], &event) == 0);
    join("the other", counts[k]);
    close(one[0]), close(one[1]), close(other[0]), close(other[1]), close(set);
  }
}

/* Four processes accept from one listener. */
static long accept_until_closed(struct waiter *w) {
  long n = 0;
  for (int fd; (fd = accept(w->fd, NULL, NULL)) >= 0; n++) {
    need(write(w->other, "x", 1) == 1);
    close(fd);
  }
  need(errno == EINVAL);
  return 0;
}
CASE(shared_listener) {
  for (int k = 0; k < 2; k++) {
    int threads = k ? 25 : 1, fd = listener(), taken[2];
    need(pipe(taken) == 0);
    for (int i = 0; i < threads; i++) waiters[i].fd = fd, waiters[i].other = taken[1];
    pid_t children[3];
    for (int i = 0; i < 3; i++) {
      children[i] = fork();
      need(children[i] >= 0);
      if (children[i] > 0) continue;
      begin(threads, accept_until_closed);
      need(write(taken[1], "r", 1) == 1);
      for (int j = 0; j < threads; j++) finish(waiters[j].thread);
      _exit(0);
    }
    begin(threads, accept_until_closed);
    char bytes[200];
    for (int n = 0; n < 3;) n += read(taken[0], bytes, 3 - n);
    for (int round = 0; round < 100; round++) close(connected());
    for (int n = 0; n < 100;) n += read(taken[0], bytes, 100 - n);
    need(shutdown(fd, SHUT_RDWR) == 0);
    join("accept", threads);
    for (int i = 0; i < 3; i++) {
      int status;
      need(waitpid(children[i], &status, 0) == children[i]);
      must(status == 0);
    }
    close(fd), close(taken[0]), close(taken[1]);
  }
}

/* The queue of connections is full: who connects waits. */
static struct sockaddr_un local;
static socklen_t local_length;
static long connect_locally(struct waiter *w) {
  w->fd = socket(AF_UNIX, SOCK_STREAM, 0);
  return connect(w->fd, (void *)&local, local_length);
}
CASE(full_queue) {
  for (int k = 0; k < COUNT(counts); k++) {
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    local = (struct sockaddr_un){.sun_family = AF_UNIX}, local_length = sizeof local;
    need(!bind(fd, (void *)&local, sizeof(sa_family_t)) && !listen(fd, 0) && !getsockname(fd, (void *)&local, &local_length));
    int first = socket(AF_UNIX, SOCK_STREAM, 0);
    need(connect(first, (void *)&local, local_length) == 0);
    begin(counts[k], connect_locally);
    for (int i = 0; i <= counts[k]; i++) {
      int one = accept(fd, NULL, NULL);
      need(one >= 0);
      close(one);
    }
    join("connect", counts[k]);
    for (int i = 0; i < counts[k]; i++) close(waiters[i].fd);
    begin(counts[k], connect_locally);
    close(fd);
    join("the listener closes", counts[k] > 1 ? counts[k] : 1);
    for (int i = 0; i < counts[k]; i++) close(waiters[i].fd);
    close(first);
  }
}

/* The program that comes by exec has the descriptors, unchanged, and none of the waiters. */
CASE(executed) {
  const char *inherited = getenv("INHERITED");
  if (inherited) {
    int fd = atoi(inherited);
    char byte;
    say("flags: %o", fcntl(fd, F_GETFL));
    for (int i = 0; i < WAITERS; i++) waiters[i].fd = fd;
    begin(WAITERS - 1, read_some);
    join("read", WAITERS - 1);
    need(read(fd, &byte, 1) == 1);
    _exit(0);
  }
  for (int k = 0; k < COUNT(counts); k++) {
    int two[2], until_exec[2];
    need(pipe(two) == 0 && pipe2(until_exec, O_CLOEXEC) == 0);
    pid_t child = fork();
    need(child >= 0);
    if (child == 0) {
      close(two[1]);
      for (int i = 0; i < counts[k]; i++) waiters[i].fd = two[0];
      begin(counts[k], read_some);
      char number[16];
      snprintf(number, sizeof number, "%d", two[0]);
      setenv("INHERITED", number, 1);
      execl("/proc/self/exe", "odds", "executed", NULL);
      _exit(98);
    }
    close(until_exec[1]);
    need(read(until_exec[0], data, 1) == 0);
    need(write(two[1], data, WAITERS * 10) == WAITERS * 10);
    close(two[0]), close(two[1]), close(until_exec[0]);
    int status;
    need(waitpid(child, &status, 0) == child);
    say("child: %s", ended(status));
  }
}

/* Keys that a terminal understands, while threads read it. */
CASE(keys) {
  for (int k = 0; k < COUNT(counts); k++) {
    int main_side, terminal;
    need(openpty(&main_side, &terminal, NULL, NULL, NULL) == 0);
    pid_t child = fork();
    need(child >= 0);
    if (child == 0) {
      need(setsid() >= 0 && ioctl(terminal, TIOCSCTTY, 0) == 0);
      struct sigaction action = {.sa_handler = count_it};
      need(sigaction(SIGINT, &action, NULL) == 0);
      for (int i = 0; i < counts[k]; i++) waiters[i].fd = terminal;
      begin(counts[k], read_some);
      sigset_t interrupt;
      sigemptyset(&interrupt);
      sigaddset(&interrupt, SIGINT);
      need(pthread_sigmask(SIG_BLOCK, &interrupt, NULL) == 0);
      need(write(main_side, "\003", 1) == 1);
      wait_until(over(counts[k]) == 1);
      if (counts[k] > 1) {
        need(write(main_side, "\004", 1) == 1);
        wait_until(over(counts[k]) == 2);
        need(write(main_side, "line\n", 5) == 5);
        wait_until(over(counts[k]) == 3);
        need(write(main_side, "not yet", 7) == 7);
        need(write(main_side, "\025", 1) == 1);
        for (int i = 3; i < counts[k]; i++) need(write(main_side, "ab\n", 3) == 3);
      }
      join("read", counts[k]);
      say("handlers: %d", atomic_load(&handled));
      _exit(0);
    }
    int status;
    need(waitpid(child, &status, 0) == child);
    say("child: %s", ended(status));
    close(main_side), close(terminal);
  }
}

/* More than one table of ours holds. */
enum { HUNDREDS = 1500 };
static int hundreds[HUNDREDS][2];
static long poll_hundreds(struct waiter *w) {
  struct pollfd *all = calloc(HUNDREDS, sizeof *all);
  for (int i = 0; i < HUNDREDS; i++) all[i] = (struct pollfd){.fd = hundreds[i][0], .events = POLLIN};
  long n = poll(all, HUNDREDS, -1);
  long found = n < 0 ? n : n * 100000 + all[w->other].revents;
  free(all);
  return found;
}
CASE(hundreds_polled) {
  struct rlimit limit;
  need(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = limit.rlim_max;
  need(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  need(limit.rlim_max > 3 * HUNDREDS);
  for (int i = 0; i < HUNDREDS; i++) need(pipe(hundreds[i]) == 0);
  /* Out of the way of those that are opened later. */
  int high = fcntl(hundreds[1400][0], F_DUPFD, 3 * HUNDREDS);
  need(high >= 0 && close(hundreds[1400][0]) == 0);
  hundreds[1400][0] = high;
  static const int few[] = {1, 10};
  for (int k = 0; k < COUNT(few); k++) {
    for (int i = 0; i < few[k]; i++) waiters[i].other = 1400;
    begin(few[k], poll_hundreds);
    need(write(hundreds[1400][1], "x", 1) == 1);
    join("one comes", few[k]);
    need(read(hundreds[1400][0], data, 1) == 1);
    begin(few[k], poll_hundreds);
    close(hundreds[1400][1]);
    join("one hangs up", few[k]);
    close(hundreds[1400][0]);
    begin(few[k], poll_hundreds);
    join("one is closed", few[k]);
    int two[2];
    need(pipe(two) == 0 && dup2(two[0], high) == high && close(two[0]) == 0);
    hundreds[1400][1] = two[1];
  }
  for (int i = 0; i < HUNDREDS; i++) close(hundreds[i][0]), close(hundreds[i][1]);
}

/* Descriptors that are none, and files that do not wait. */
static long ask_it(struct waiter *w) {
  struct pollfd one = {.fd = w->fd, .events = POLLIN | POLLOUT};
  long n = poll(&one, 1, -1);
  return n < 0 ? n : n * 1000 + one.revents;
}
static long write_it(struct waiter *w) { return write(w->fd, "x", 1); }
static long accept_it(struct waiter *w) { return accept(w->fd, NULL, NULL); }
static long select_it(struct waiter *w) {
  fd_set one;
  FD_ZERO(&one);
  FD_SET(w->fd % FD_SETSIZE, &one);
  return select(w->fd % FD_SETSIZE + 1, &one, NULL, NULL, NULL);
}
CASE(invalid) {
  long (*calls[])(struct waiter *) = {read_some, receive_some, peek, write_it, ask_it, accept_it, wait_for_one, select_it};
  const char *names[] = {"read", "recv", "peek", "write", "poll", "accept", "epoll_wait", "select"};
  const char *kinds[] = {"none", "file", "folder", "path", "null", "zero"};
  int fds[] = {60, memfd_create("odds", 0), open("/tmp", O_RDONLY), open("/tmp", O_PATH), open("/dev/null", O_RDWR),
               open("/dev/zero", O_RDWR)};
  for (int k = 0; k < COUNT(counts); k++)
    for (int kind = 0; kind < COUNT(kinds); kind++)
      for (int call = 0; call < COUNT(calls); call++) {
        for (int i = 0; i < counts[k]; i++) waiters[i].fd = fds[kind];
        begin(counts[k], calls[call]);
        char text[64];
        snprintf(text, sizeof text, "%s, %s", kinds[kind], names[call]);
        if (call == 3 && kind == 1) for (int i = 0; i < counts[k]; i++) finish(waiters[i].thread);
        else join(text, counts[k]);
      }
  for (int i = 1; i < COUNT(fds); i++) close(fds[i]);
}

/* Nothing is left by which to wait for many at once. */
CASE(no_descriptor_left) {
  struct rlimit limit, few;
  need(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  for (int k = 0; k < COUNT(counts); k++) {
    int two[2];
    need(pipe(two) == 0);
    few = limit, few.rlim_cur = (rlim_t)two[1] + 1;
    need(setrlimit(RLIMIT_NOFILE, &few) == 0);
    say("one more: %s", result(dup(two[0])));
    for (int i = 0; i < counts[k]; i++) {
      struct waiter *w = &waiters[i];
      *w = (struct waiter){.call = i % 2 ? read_some : ask_it, .fd = two[0]};
      w->thread = start(wait_in, w);
    }
    settle();
    need(write(two[1], data, 1000) == 1000);
    join("read", counts[k]);
    need(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    close(two[0]), close(two[1]);
  }
}

/* Directions are apart: readers and writers of one socket. */
CASE(both_directions) {
  for (int k = 0; k < COUNT(counts); k++) {
    int two[2], half = counts[k] > 1 ? counts[k] / 2 : 1;
    need(socketpair(AF_UNIX, SOCK_STREAM, 0, two) == 0);
    while (send(two[0], data, 1000, MSG_DONTWAIT) > 0) {}
    for (int i = 0; i < 2 * half; i++) {
      struct waiter *w = &waiters[i];
      *w = (struct waiter){.call = i % 2 ? read_some : write_it, .fd = two[0], .number = i};
      w->thread = start(wait_in, w);
    }
    for (int i = 1; i < 2 * half; i += 2) wait_until(atomic_load(&waiters[i].tid) && sleeps(&waiters[i]));
    for (int i = 0; i < half; i++) {
      need(send(two[1], "0123456789", 10, 0) == 10);
      wait_until(has_taken_all(two[0]));
    }
    while (over(2 * half) < 2 * half) recv(two[1], data, sizeof data, MSG_DONTWAIT);
    join("both", 2 * half);
    close(two[0]), close(two[1]);
  }
}

/* The call that has moved a part says so, and the next one has the error. */
static long send_everything(struct waiter *w) { return send(w->fd, data, sizeof data, 0) > 0; }
static long write_everything(struct waiter *w) { return write(w->fd, data, sizeof data) > 0; }
static long write_pieces(struct waiter *w) {
  struct iovec pieces[8];
  for (int i = 0; i < 8; i++) pieces[i] = (struct iovec){data, sizeof data};
  return writev(w->fd, pieces, 8) > 0;
}
CASE(reset_after_a_part) {
  static long (*const ways[])(struct waiter *) = {receive_ten, send_everything, write_everything, write_pieces};
  signal(SIGPIPE, SIG_DFL);
  for (int way = 0; way < COUNT(ways); way++) {
    tcp_pairs(1);
    int small = 4096;
    need(setsockopt(waiters[0].fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small) == 0);
    need(setsockopt(waiters[0].other, SOL_SOCKET, SO_RCVBUF, &small, sizeof small) == 0);
    if (way == 0) need(write(waiters[0].other, "abc", 3) == 3);
    begin(1, ways[way]);
    wait_until(sleeps(&waiters[0]) && (way > 0 || has_taken_all(waiters[0].fd)));
    /* What has been sent is acknowledged, and no part of the rest is being tried. */
    settle();
    need(setsockopt(waiters[0].other, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger)) == 0);
    close(waiters[0].other);
    join("part", 1);
    say("then %s", result(way == 0 ? recv(waiters[0].fd, data, 1, 0) : write(waiters[0].fd, "x", 1)));
    signal(SIGPIPE, SIG_IGN);
    say("and then %s", result(way == 0 ? recv(waiters[0].fd, data, 1, 0) : write(waiters[0].fd, "x", 1)));
    signal(SIGPIPE, SIG_DFL);
    close(waiters[0].fd);
  }
}

/* A peer that is gone after a part: the signal comes with the next call. */
static atomic_int broken;
static void note_broken(int signal) { broken += signal == SIGPIPE; }
CASE(closed_after_a_part) {
  static long (*const ways[])(struct waiter *) = {send_everything, write_everything, write_pieces};
  signal(SIGPIPE, note_broken);
  for (int way = 0; way < COUNT(ways); way++) {
    pairs_of(1, SOCK_STREAM);
    broken = 0;
    begin(1, ways[way]);
    wait_until(sleeps(&waiters[0]));
    settle();
    close(waiters[0].other);
    join("part", 1);
    say("signals %d", broken);
    say("then %s", result(write(waiters[0].fd, "x", 1)));
    say("signals %d", broken);
    close(waiters[0].fd);
  }
  signal(SIGPIPE, SIG_DFL);
}

/* The other half of a connection that this side has shut down after a part. */
CASE(half_closed_after_a_part) {
  signal(SIGPIPE, note_broken);
  tcp_pairs(1);
  broken = 0;
  begin(1, write_everything);
  wait_until(sleeps(&waiters[0]));
  settle();
  need(shutdown(waiters[0].fd, SHUT_WR) == 0);
  join("part", 1);
  say("signals %d", broken);
  need(write(waiters[0].other, "hello", 5) == 5);
  say("received %s", result(recv(waiters[0].fd, data, 5, MSG_WAITALL)));
  say("then %s", result(write(waiters[0].fd, "x", 1)));
  say("signals %d", broken);
  close_pairs(1);
  signal(SIGPIPE, SIG_DFL);
}
