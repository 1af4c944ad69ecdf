//@ engines
//@ seconds: 60
/* Many threads that wait for descriptors at once: whom an event wakes, and what becomes of those who wait while the
 * descriptor is closed, replaced, shared or runs out of time. */
#include "waiters.h"
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

static long read_one(struct waiter *w) { return read(w->fd, w->bytes, 1); }
static long read_many(struct waiter *w) { return read(w->fd, w->bytes, sizeof w->bytes); }
static long recv_one(struct waiter *w) { return recv(w->fd, w->bytes, 1, 0); }
static long accept_one(struct waiter *w) { return accept(w->fd, NULL, NULL) >= 0 ? 1 : -1; }
static long poll_in(struct waiter *w) {
  struct pollfd poll_fd = {.fd = w->fd, .events = POLLIN};
  long n = poll(&poll_fd, 1, -1);
  return n < 0 ? n : n * 1000 + poll_fd.revents;
}
static long poll_two(struct waiter *w) {
  struct pollfd two[3] = {{.fd = w->fd, .events = POLLIN}, {.fd = -1}, {.fd = w->other, .events = POLLIN | POLLOUT}};
  long n = poll(two, 3, -1);
  return n < 0 ? n : n * 1000000 + two[0].revents * 1000 + two[2].revents;
}
static long poll_timed(struct waiter *w) {
  int64_t from = now_ns(CLOCK_MONOTONIC);
  struct pollfd poll_fd = {.fd = w->fd, .events = POLLIN};
  long n = poll(&poll_fd, 1, 50 + w->number);
  must(now_ns(CLOCK_MONOTONIC) - from >= (50 + w->number) * INT64_C(1000000));
  return n;
}
static long select_in(struct waiter *w) {
  fd_set set, none;
  FD_ZERO(&set);
  FD_ZERO(&none);
  FD_SET(w->fd, &set);
  FD_SET(w->fd, &none);
  struct timeval time = {.tv_sec = 50};
  long n = select(w->fd + 1, &set, NULL, &none, &time);
  must(time.tv_sec <= 50);
  return n < 0 ? n : n * 100 + FD_ISSET(w->fd, &set) * 10 + FD_ISSET(w->fd, &none);
}
static long select_timed(struct waiter *w) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(w->fd, &set);
  struct timeval time = {.tv_usec = 30000};
  long n = select(w->fd + 1, &set, NULL, NULL, &time);
  return n < 0 ? n : n * 100 + FD_ISSET(w->fd, &set) * 10 + (time.tv_sec || time.tv_usec);
}
/* As the C library musl makes it; glibc makes pselect6(2). */
static long select_number(struct waiter *w) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(w->fd, &set);
  struct timeval time = {.tv_usec = 30000};
  long n = syscall(SYS_select, w->fd + 1, &set, NULL, NULL, w->number % 2 == 0 ? &time : NULL);
  return n < 0 ? n : n * 100 + FD_ISSET(w->fd, &set) * 10 + (time.tv_sec || time.tv_usec);
}
static long epoll_in(struct waiter *w) {
  struct epoll_event event = {0};
  long n = epoll_wait(w->fd, &event, 1, -1);
  return n < 0 ? n : n * 100 + event.events;
}
static long epoll_timed(struct waiter *w) {
  struct epoll_event event;
  return epoll_wait(w->fd, &event, 1, 40);
}
static char large[1 << 20];
static long write_large(struct waiter *w) { return write(w->fd, large, sizeof large); }
static long send_large(struct waiter *w) { return send(w->fd, large, sizeof large, 0); }
static long writev_large(struct waiter *w) {
  struct iovec parts[40];
  for (int i = 0; i < 40; i++) parts[i] = (struct iovec){large + i * 20000, i % 3 ? 20000 : 1};
  return writev(w->fd, parts, 40);
}
static long sendmsg_large(struct waiter *w) {
  struct iovec parts[3] = {{large, 300000}, {large + 300000, 0}, {large + 300000, 400000}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
  return sendmsg(w->fd, &message, 0);
}

static void pairs(int type) {
  for (int i = 0; i < WAITERS; i++) {
    int two[2];
    need(type ? socketpair(AF_UNIX, type, 0, two) == 0 : pipe(two) == 0);
    waiters[i].fd = two[0], waiters[i].other = two[1];
  }
}
static void close_pairs(void) {
  for (int i = 0; i < WAITERS; i++) close(waiters[i].fd), close(waiters[i].other);
}
static void one_pipe(int two[2]) {
  need(pipe(two) == 0);
  for (int i = 0; i < WAITERS; i++) waiters[i].fd = two[0];
}
static int listener(struct sockaddr_in *address) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof *address;
  need(fd >= 0 && !bind(fd, (void *)address, len) && !listen(fd, 128) && !getsockname(fd, (void *)address, &len));
  return fd;
}
static int connect_to(struct sockaddr_in *address) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  need(fd >= 0 && !connect(fd, (void *)address, sizeof *address));
  return fd;
}

CASE(each_its_own) {
  for (int type = 0; type < 3; type++) {
    int types[] = {0, SOCK_STREAM, SOCK_SEQPACKET};
    pairs(types[type]);
    begin(WAITERS, read_many);
    for (int i = WAITERS - 1; i >= 0; i--) {
      need(write(waiters[i].other, large, i % 7 + 1) == i % 7 + 1);
      wait_until(atomic_load(&waiters[i].ended));
    }
    join("read", WAITERS);
    close_pairs();
  }
}

CASE(one_for_each_byte) {
  int two[2];
  one_pipe(two);
  begin(WAITERS, read_one);
  for (int i = 0; i < WAITERS; i++) {
    need(write(two[1], "x", 1) == 1);
    wait_until(over(WAITERS) == i + 1);
  }
  join("one by one", WAITERS);
  begin(WAITERS, read_one);
  need(write(two[1], large, WAITERS / 2) == WAITERS / 2);
  wait_until(over(WAITERS) == WAITERS / 2);
  settle();
  say("after half: %d", over(WAITERS));
  close(two[1]);
  join("half and the end", WAITERS);
  close(two[0]);
}

/* They come to wait while what they wait for arrives: one event for all. */
CASE(many_rounds) {
  for (int round = 0; round < 100; round++) {
    int two[2];
    one_pipe(two);
    for (int i = 0; i < 8; i++) {
      struct waiter *w = &waiters[i];
      *w = (struct waiter){.call = read_one, .fd = two[0]};
      w->thread = start(wait_in, w);
    }
    if (round % 2) wait_until(sleeps(&waiters[round % 8]));
    need(write(two[1], large, 8) == 8);
    for (int i = 0; i < 8; i++) finish(waiters[i].thread);
    close(two[0]), close(two[1]);
  }
  say("all have read: %d", over(8));
}

CASE(a_counter) {
  int fd = eventfd(0, EFD_SEMAPHORE);
  for (int i = 0; i < WAITERS; i++) waiters[i].fd = fd;
  begin(WAITERS, (long (*)(struct waiter *))read_many);
  uint64_t n = 5;
  need(write(fd, &n, 8) == 8);
  wait_until(over(WAITERS) == 5);
  settle();
  say("after five: %d", over(WAITERS));
  n = WAITERS - 5;
  need(write(fd, &n, 8) == 8);
  join("eventfd", WAITERS);
  close(fd);
}

CASE(a_timer) {
  int fd = timerfd_create(CLOCK_MONOTONIC, 0);
  for (int i = 0; i < WAITERS; i++) waiters[i].fd = fd;
  begin(WAITERS, poll_in);
  struct itimerspec time = {.it_value = {.tv_nsec = 1000000}};
  need(timerfd_settime(fd, 0, &time, NULL) == 0);
  join("timerfd", WAITERS);
  close(fd);
}

CASE(accept_by_all) {
  struct sockaddr_in address;
  int fd = listener(&address), peers[WAITERS];
  for (int i = 0; i < WAITERS; i++) waiters[i].fd = fd;
  begin(WAITERS, accept_one);
  for (int i = 0; i < WAITERS; i++) peers[i] = connect_to(&address);
  join("accept", WAITERS);
  for (int i = 0; i < WAITERS; i++) close(peers[i]);
  close(fd);
}

CASE(polled_by_all) {
  int two[2];
  one_pipe(two);
  begin(WAITERS, poll_in);
  need(write(two[1], "x", 1) == 1);
  join("poll", WAITERS);
  need(read(two[0], large, 1) == 1);
  begin(WAITERS, select_in);
  need(write(two[1], "x", 1) == 1);
  join("select", WAITERS);
  need(read(two[0], large, 1) == 1);
  begin(WAITERS, select_number);
  wait_until(over(WAITERS) == WAITERS / 2);
  need(write(two[1], "x", 1) == 1);
  join("select by its number", WAITERS);
  need(read(two[0], large, 1) == 1);
  begin(WAITERS, poll_in);
  close(two[1]);
  join("hang-up", WAITERS);
  close(two[0]);
}

CASE(polled_in_two) {
  pairs(SOCK_STREAM);
  for (int i = 0; i < WAITERS; i++) {
    need(fcntl(waiters[i].fd, F_SETFL, O_NONBLOCK) == 0);
    while (write(waiters[i].fd, large, 4096) > 0) {}
    need(fcntl(waiters[i].fd, F_SETFL, 0) == 0);
    int fd = waiters[i].fd;
    waiters[i].fd = waiters[i].other, waiters[i].other = fd;
    while (i % 2 == 0 && recv(waiters[i].fd, large, 4096, MSG_DONTWAIT) > 0) {}
  }
  for (int i = 0; i < WAITERS; i += 2) {
    struct pollfd room = {.fd = waiters[i].other, .events = POLLOUT};
    need(poll(&room, 1, -1) == 1);
  }
  begin(WAITERS, poll_two);
  say("with room: %d", over(WAITERS));
  join("poll", WAITERS);
  close_pairs();
}

CASE(time_is_over) {
  pairs(0);
  begin(WAITERS, poll_timed);
  join("poll", WAITERS);
  begin(WAITERS, select_timed);
  join("select", WAITERS);
  close_pairs();
  int fd = epoll_create1(0);
  for (int i = 0; i < WAITERS; i++) waiters[i].fd = fd;
  begin(WAITERS, epoll_timed);
  join("epoll", WAITERS);
  /* A number that no file which is opened meanwhile gets, as that of a look at the waiters would. */
  int high = fcntl(fd, F_DUPFD, 900);
  need(high >= 900 && close(high) == 0 && close(fd) == 0);
  for (int i = 0; i < WAITERS; i++) waiters[i].fd = high;
  begin(WAITERS, poll_in);
  join("poll of a closed one", WAITERS);
}

CASE(sockets_with_a_limit) {
  pairs(SOCK_STREAM);
  struct timeval limit = {.tv_usec = 20000};
  for (int i = 0; i < WAITERS; i += 2)
    need(setsockopt(waiters[i].fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
  begin(WAITERS, recv_one);
  wait_until(over(WAITERS) == WAITERS / 2);
  for (int i = 1; i < WAITERS; i += 2) need(write(waiters[i].other, "x", 1) == 1);
  join("receive", WAITERS);
  for (int i = 0; i < WAITERS; i++)
    need(setsockopt(waiters[i].fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0);
  begin(WAITERS, send_large);
  for (int i = 0; i < WAITERS; i++) {
    finish(waiters[i].thread);
    must(waiters[i].result > 0 && waiters[i].result < 1 << 20);
  }
  close_pairs();
}

CASE(large_writes) {
  long (*calls[])(struct waiter *) = {write_large, send_large, writev_large, sendmsg_large};
  for (size_t i = 0; i < sizeof large; i++) large[i] = (char)(i * 7 + i / 251);
  for (int call = 0; call < COUNT(calls); call++) {
    pairs(SOCK_STREAM);
    begin(WAITERS, calls[call]);
    long sum = 0, total = 0;
    for (int i = 0; i < WAITERS; i++) {
      char got[5000];
      for (long left = call < 2 ? 1 << 20 : call == 3 ? 700000 : 520014; left > 0;) {
        ssize_t n = read(waiters[i].other, got, left < 5000 ? left : 5000);
        need(n > 0);
        for (ssize_t k = 0; k < n; k++) sum = sum * 31 + got[k];
        left -= n, total += n;
      }
      wait_until(atomic_load(&waiters[i].ended));
    }
    say("%ld bytes, %ld", total, sum);
    join("write", WAITERS);
    close_pairs();
  }
}

CASE(a_part_and_the_end) {
  signal(SIGPIPE, SIG_IGN);
  pairs(SOCK_STREAM);
  begin(WAITERS, send_large);
  for (int i = 0; i < WAITERS; i++) close(waiters[i].other);
  for (int i = 0; i < WAITERS; i++) {
    finish(waiters[i].thread);
    must(waiters[i].result > 0 && waiters[i].result < 1 << 20);
  }
  say("all sent a part");
  for (int i = 0; i < WAITERS; i++) close(waiters[i].fd);
}

CASE(shut_down) {
  pairs(SOCK_STREAM);
  begin(WAITERS, read_one);
  for (int i = 0; i < WAITERS; i++) need(shutdown(i % 2 ? waiters[i].other : waiters[i].fd, i % 2 ? SHUT_WR : SHUT_RD) == 0);
  join("read", WAITERS);
  close_pairs();
}

CASE(reset) {
  struct sockaddr_in address;
  int fd = listener(&address), peers[WAITERS];
  for (int i = 0; i < WAITERS; i++) {
    peers[i] = connect_to(&address);
    waiters[i].fd = accept(fd, NULL, NULL);
    need(waiters[i].fd >= 0);
  }
  begin(WAITERS, read_one);
  struct linger linger = {.l_onoff = 1};
  for (int i = 0; i < WAITERS; i++) {
    need(setsockopt(peers[i], SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
    close(peers[i]);
  }
  join("read", WAITERS);
  for (int i = 0; i < WAITERS; i++) close(waiters[i].fd);
  close(fd);
}

/* They keep waiting for what they began to wait for. */
CASE(closed_meanwhile) {
  pairs(SOCK_STREAM);
  begin(WAITERS, read_one);
  settle();
  for (int i = 0; i < WAITERS; i++) {
    int other = eventfd(7, 0);
    if (i % 3 == 0) need(close(waiters[i].fd) == 0);
    if (i % 3 == 1) need(dup2(other, waiters[i].fd) == waiters[i].fd);
    close(other);
  }
  settle();
  say("after closing: %d", over(WAITERS));
  for (int i = 0; i < WAITERS; i++) need(write(waiters[i].other, "x", 1) == 1);
  join("read", WAITERS);
  for (int i = 0; i < WAITERS; i++) must(waiters[i].bytes[0] == 'x');
  close_pairs();
}

CASE(closed_by_range) {
  pairs(0);
  int low = waiters[0].fd;
  begin(WAITERS, read_one);
  int ends[WAITERS];
  settle();
  for (int i = 0; i < WAITERS; i++) ends[i] = fcntl(waiters[i].other, F_DUPFD, 400);
  need(syscall(SYS_close_range, low, 399, 0) == 0);
  for (int i = 0; i < WAITERS; i++) {
    need(write(ends[i], "x", 1) == 1);
    close(ends[i]);
  }
  join("read", WAITERS);
  int fd = open("/dev/null", O_RDONLY);
  say("the next one: %d", fd - low);
  close(fd);
}

/* The number is used again at once. */
CASE(used_again) {
  for (int round = 0; round < 20; round++) {
    pairs(round % 2 ? SOCK_STREAM : 0);
    begin(8, read_one);
    for (int i = 0; i < 8; i++) need(write(waiters[i].other, "y", 1) == 1);
    for (int i = 0; i < 8; i++) {
      finish(waiters[i].thread);
      must(waiters[i].bytes[0] == 'y');
    }
    close_pairs();
  }
  say("twenty times");
}

static atomic_int handled;
static void note_it(int signal) { handled += signal > 0; }

CASE(signals) {
  struct sigaction action = {.sa_handler = note_it};
  sigaction(SIGUSR1, &action, NULL);
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR2, &action, NULL);
  pairs(SOCK_STREAM);
  begin(WAITERS, read_one);
  for (int i = 0; i < WAITERS; i++) need(pthread_kill(waiters[i].thread, i % 2 ? SIGUSR1 : SIGUSR2) == 0);
  wait_until(atomic_load(&handled) == WAITERS);
  for (int i = 0; i < WAITERS; i += 2) need(write(waiters[i].other, "x", 1) == 1);
  join("read", WAITERS);
  begin(WAITERS, poll_in);
  for (int i = 0; i < WAITERS; i++) need(pthread_kill(waiters[i].thread, i % 2 ? SIGUSR1 : SIGUSR2) == 0);
  join("poll", WAITERS);
  begin(WAITERS, select_in);
  for (int i = 0; i < WAITERS; i++) need(pthread_kill(waiters[i].thread, SIGUSR2) == 0);
  join("select", WAITERS);
  close_pairs();
}

CASE(epoll_of_the_program) {
  int two[2], epoll = epoll_create1(0), outer = epoll_create1(0);
  need(pipe(two) == 0);
  struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT};
  need(!epoll_ctl(epoll, EPOLL_CTL_ADD, two[0], &event));
  event.events = EPOLLIN;
  need(!epoll_ctl(outer, EPOLL_CTL_ADD, epoll, &event));
  for (int i = 0; i < WAITERS; i++) waiters[i].fd = epoll;
  begin(WAITERS, epoll_in);
  need(write(two[1], "x", 1) == 1);
  wait_until(over(WAITERS) == 1);
  settle();
  say("once: %d", over(WAITERS));
  for (int i = 1; i < WAITERS; i++) {
    event.events = EPOLLIN | EPOLLONESHOT;
    need(!epoll_ctl(epoll, EPOLL_CTL_MOD, two[0], &event));
    wait_until(over(WAITERS) == i + 1);
  }
  join("one shot each", WAITERS);
  for (int i = 0; i < WAITERS; i++) waiters[i].fd = outer;
  begin(WAITERS, epoll_in);
  event.events = EPOLLIN;
  need(!epoll_ctl(epoll, EPOLL_CTL_MOD, two[0], &event));
  join("nested", WAITERS);
  close(two[0]), close(two[1]), close(epoll), close(outer);
}

CASE(forked) {
  pairs(SOCK_STREAM);
  begin(WAITERS, read_one);
  pid_t child = fork();
  need(child >= 0);
  if (child == 0) {
    /* It has the descriptors, and none of the waiters. */
    for (int i = 0; i < WAITERS; i += 2) {
      char byte;
      int two[2];
      need(write(waiters[i].other, "x", 1) == 1);
      need(pipe(two) == 0 && write(two[1], "z", 1) == 1 && read(two[0], &byte, 1) == 1);
      close(two[0]), close(two[1]);
    }
    _exit(0);
  }
  int status;
  need(waitpid(child, &status, 0) == child);
  say("child: %s", ended(status));
  for (int i = 1; i < WAITERS; i += 2) need(write(waiters[i].other, "x", 1) == 1);
  join("read", WAITERS);
  close_pairs();
}

/* Its flags are everybody's: nothing sets O_NONBLOCK. */
CASE(flags_stay) {
  pairs(SOCK_STREAM);
  begin(WAITERS, read_one);
  int found = 0;
  for (int i = 0; i < WAITERS; i++) found |= fcntl(waiters[i].fd, F_GETFL) | fcntl(waiters[i].other, F_GETFL);
  say("flags: %o", found);
  for (int i = 0; i < WAITERS; i++) need(write(waiters[i].other, "x", 1) == 1);
  join("read", WAITERS);
  close_pairs();
}

CASE(nonblocking) {
  pairs(SOCK_STREAM);
  char byte;
  begin(WAITERS, read_one);
  int two[2];
  need(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, two) == 0);
  say("read: %s", result(read(two[0], &byte, 1)));
  say("recv: %s", result(recv(two[0], &byte, 1, 0)));
  say("recv: %s", result(recv(waiters[0].other, &byte, 1, MSG_DONTWAIT)));
  struct iovec part = {&byte, 1};
  say("readv: %s", result(readv(two[0], &part, 1)));
  while (send(two[0], large, 4096, 0) > 0) {}
  say("send: %s", result(send(two[0], large, 4096, 0)));
  say("write: %s", result(write(two[0], large, 4096)));
  say("writev: %s", result(writev(two[0], &(struct iovec){large, 4096}, 1)));
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  say("sendmsg: %s", result(sendmsg(two[0], &message, 0)));
  say("recvmsg: %s", result(recvmsg(waiters[1].other, &message, MSG_DONTWAIT)));
  for (int i = 0; i < WAITERS; i++) need(write(waiters[i].other, "x", 1) == 1);
  join("read", WAITERS);
  close_pairs();
}
