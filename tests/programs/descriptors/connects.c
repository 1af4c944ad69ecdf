//@ engines
//@ seconds: 60
/* Threads that wait in connect(2), and what ends their wait. Each with one thread that waits and with many. */
#include "waiters.h"
#include "waiter_signals.h"
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

static const int counts[] = {1, WAITERS};
static struct sockaddr_in address;
static int listener, first;

/* A listener that takes no more connections: who asks for one waits. */
static void begin_full(int count, int limit_ms) {
  socklen_t length = sizeof address;
  address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  need((listener = socket(AF_INET, SOCK_STREAM, 0)) >= 0 && (first = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
  need(!bind(listener, (void *)&address, length) && !listen(listener, 0) && !getsockname(listener, (void *)&address, &length));
  need(connect(first, (void *)&address, sizeof address) == 0);
  for (int i = 0; i < count; i++) {
    need((waiters[i].fd = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
    struct timeval limit = {.tv_usec = limit_ms * 1000};
    need(setsockopt(waiters[i].fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0);
  }
}
static void end_full(int count) {
  for (int i = 0; i < count; i++) close(waiters[i].fd);
  close(listener), close(first);
}

static long connect_it(struct waiter *w) { return connect(w->fd, (void *)&address, sizeof address); }

/* What the sockets say afterwards. */
static void look(int count) {
  int error, same = 0, told = -1, events = 0;
  socklen_t size = sizeof error;
  for (int i = 0; i < count; i++) {
    struct pollfd one = {waiters[i].fd, POLLIN | POLLOUT, 0};
    need(poll(&one, 1, 0) >= 0 && getsockopt(waiters[i].fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0);
    if (i == 0) told = error, events = one.revents;
    same += told == error && events == one.revents;
  }
  say("%s, %s%s%s", same == count ? "all" : "not all", errname(told), events & POLLHUP ? ", hung up" : "",
      events & POLLOUT ? ", can write" : "");
}

CASE(given_up) {
  for (int k = 0; k < COUNT(counts); k++)
    for (int how = SHUT_RD; how <= SHUT_RDWR; how++) {
      begin_full(counts[k], 0);
      begin(counts[k], connect_it);
      for (int i = 0; i < counts[k]; i++) need(shutdown(waiters[i].fd, how) == 0);
      join("connect", counts[k]);
      look(counts[k]);
      end_full(counts[k]);
    }
}

/* And begun anew, where there is room. */
CASE(begun_anew) {
  for (int k = 0; k < COUNT(counts); k++) {
    begin_full(counts[k], 0);
    begin(counts[k], connect_it);
    for (int i = 0; i < counts[k]; i++) need(shutdown(waiters[i].fd, SHUT_RDWR) == 0);
    join("connect", counts[k]);
    need(listen(listener, 512) == 0);
    begin(counts[k], connect_it);
    join("again", counts[k]);
    look(counts[k]);
    end_full(counts[k]);
  }
}

CASE(refused) {
  for (int k = 0; k < COUNT(counts); k++) {
    begin_full(counts[k], 0);
    begin(counts[k], connect_it);
    close(listener);
    join("connect", counts[k]);
    look(counts[k]);
    end_full(counts[k]);
  }
}

CASE(made) {
  for (int k = 0; k < COUNT(counts); k++) {
    begin_full(counts[k], 0);
    begin(counts[k], connect_it);
    need(listen(listener, 512) == 0);
    join("connect", counts[k]);
    look(counts[k]);
    end_full(counts[k]);
  }
}

/* Another call asks for the same connection, and is not told to wait. */
CASE(asked_for_again) {
  for (int k = 0; k < COUNT(counts); k++) {
    begin_full(counts[k], 0);
    begin(counts[k], connect_it);
    int flags = fcntl(waiters[0].fd, F_GETFL);
    need(fcntl(waiters[0].fd, F_SETFL, flags | O_NONBLOCK) == 0);
    say("connect: %s", result(connect_it(&waiters[0])));
    for (int i = 0; i < counts[k]; i++) need(shutdown(waiters[i].fd, SHUT_RDWR) == 0);
    join("connect", counts[k]);
    end_full(counts[k]);
  }
}

CASE(closed) {
  for (int k = 0; k < COUNT(counts); k++) {
    begin_full(counts[k], 0);
    begin(counts[k], connect_it);
    for (int i = 0; i < counts[k]; i++) {
      int kept = dup(waiters[i].fd);
      need(kept >= 0 && close(waiters[i].fd) == 0);
      waiters[i].fd = kept;
    }
    for (int i = 0; i < counts[k]; i++) need(shutdown(waiters[i].fd, SHUT_RDWR) == 0);
    join("connect", counts[k]);
    end_full(counts[k]);
  }
}

CASE(signals) {
  prepare_signals();
  for (int k = 0; k < COUNT(counts); k++) {
    begin_full(counts[k], 0);
    begin(counts[k], connect_it);
    /* The call goes on. */
    signal_all(counts[k], SIGUSR2);
    for (int i = 0; i < counts[k]; i++) wait_until(sleeps(&waiters[i]));
    say("%d over", over(counts[k]));
    signal_all(counts[k], SIGUSR1);
    join("connect", counts[k]);
    for (int i = 0; i < counts[k]; i++) need(fcntl(waiters[i].fd, F_SETFL, O_NONBLOCK) == 0);
    begin(counts[k], connect_it);
    join("again", counts[k]);
    end_full(counts[k]);
  }
}

CASE(time_is_over) {
  for (int k = 0; k < COUNT(counts); k++) {
    begin_full(counts[k], 50);
    begin(counts[k], connect_it);
    join("connect", counts[k]);
    begin(counts[k], connect_it);
    join("again", counts[k]);
    look(counts[k]);
    for (int i = 0; i < counts[k]; i++) need(shutdown(waiters[i].fd, SHUT_RDWR) == 0);
    begin(counts[k], connect_it);
    join("anew", counts[k]);
    end_full(counts[k]);
  }
}

static struct sockaddr_un name;
static socklen_t name_length;
static long connect_unix(struct waiter *w) { return connect(w->fd, (void *)&name, name_length); }

/* Where the queue of a unix stream is full, a connection is not begun before there is room. */
CASE(of_unix) {
  prepare_signals();
  for (int k = 0; k < COUNT(counts); k++)
    for (int end = 0; end < 3; end++) {
      name = (struct sockaddr_un){.sun_family = AF_UNIX};
      name_length = sizeof(sa_family_t);
      socklen_t length = sizeof name;
      need((listener = socket(AF_UNIX, SOCK_STREAM, 0)) >= 0 && !bind(listener, (void *)&name, name_length) && !listen(listener, 0));
      need(getsockname(listener, (void *)&name, &length) == 0 && (first = socket(AF_UNIX, SOCK_STREAM, 0)) >= 0);
      name_length = length;
      need(connect(first, (void *)&name, name_length) == 0);
      for (int i = 0; i < counts[k]; i++) need((waiters[i].fd = socket(AF_UNIX, SOCK_STREAM, 0)) >= 0);
      begin(counts[k], connect_unix);
      switch (end) {
      case 0: need(listen(listener, 512) == 0); close(accept(listener, NULL, NULL)); break;
      case 1: close(listener); break;
      default: signal_all(counts[k], SIGUSR1);
      }
      if (end == 0)
        for (int i = 0; i < counts[k]; i++) close(accept(listener, NULL, NULL));
      join(end == 0 ? "made" : end == 1 ? "refused" : "signal", counts[k]);
      end_full(counts[k]);
    }
}
