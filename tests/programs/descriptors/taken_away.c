//@ engines
/* A descriptor's number is closed or stands for something else just after what its reader waits for has come: the reader, which
 * has not run since, gets what came, and nothing of the other file. */
#include "waiters.h"
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { CROWD = 6, ROUNDS = 15 };

static int other[2];

static long read_one(struct waiter *w) { return read(w->fd, w->bytes, 1); }

/* It runs when nobody else wants the CPU. */
static void behind(void) {
  struct sched_param none = {0};
  need(sched_setscheduler(0, SCHED_IDLE, &none) == 0);
}
static long read_late(struct waiter *w) {
  behind();
  long n = read(w->fd, w->bytes, sizeof w->bytes);
  return n > 0 ? n * 1000 + w->bytes[0] : n;
}
static long receive_late(struct waiter *w) {
  behind();
  long n = recv(w->fd, w->bytes, sizeof w->bytes, 0);
  return n > 0 ? n * 1000 + w->bytes[0] : n;
}
static long accept_late(struct waiter *w) {
  behind();
  int fd = accept(w->fd, NULL, NULL);
  struct sockaddr_un address;
  socklen_t length = sizeof address;
  return fd < 0 ? fd : getsockname(fd, (void *)&address, &length) == 0 ? address.sun_path[1] : -1;
}

/* About as long as a tick: who looks for events at ticks finds this one, and the reader does not run yet. */
static void compute(int ms) {
  for (int64_t until = now_ns(CLOCK_MONOTONIC) + ms * INT64_C(1000000); now_ns(CLOCK_MONOTONIC) < until;) {}
}

static void replace(int fd) { need(dup2(other[0], fd) == fd); }
static void remove_it(int fd) { need(close(fd) == 0); }
static void remove_all_from(int fd) { need(syscall(SYS_close_range, fd, fd, 0) == 0); }
static void (*const ways[])(int) = {replace, remove_it, remove_all_from};

static int high(int fd) {
  int moved = fcntl(fd, F_DUPFD, 100);
  need(moved >= 0 && close(fd) == 0);
  return moved;
}

static int listener(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path + 1, 40, "L%d", getpid());
  int fd = high(socket(AF_UNIX, SOCK_STREAM, 0));
  need(bind(fd, (void *)&address, sizeof address) == 0 && listen(fd, 8) == 0);
  return fd;
}

static void join_them(int fd) {
  struct sockaddr_un address;
  socklen_t length = sizeof address;
  need(getsockname(fd, (void *)&address, &length) == 0);
  int one = high(socket(AF_UNIX, SOCK_STREAM, 0));
  need(connect(one, (void *)&address, length) == 0);
}

static void make_pair(int fds[2]) {
  need(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  fds[0] = high(fds[0]), fds[1] = high(fds[1]);
}

/* More than four threads wait, so none of them has a host thread of its own. */
static int quiet[2];
static struct waiter *const crowd = &waiters[2];

static void gather(void) {
  need(pipe(quiet) == 0 && pipe(other) == 0 && write(other[1], "xxxxxxxx", 8) == 8);
  for (int i = 0; i < CROWD; i++) {
    crowd[i].fd = quiet[0], crowd[i].call = read_one;
    crowd[i].thread = start(wait_in, &crowd[i]);
    wait_until(atomic_load(&crowd[i].tid) != 0 && sleeps(&crowd[i]));
  }
}

static void dismiss(void) {
  need(write(quiet[1], "xxxxxxxx", CROWD) == CROWD);
  for (int i = 0; i < CROWD; i++) finish(crowd[i].thread);
}

CASE(after_shutdown) {
  int pair[2];
  gather();
  for (int round = 0; round < ROUNDS; round++) {
    make_pair(pair);
    waiters[0].fd = pair[0];
    begin(1, read_late);
    need(shutdown(pair[0], SHUT_RDWR) == 0);
    compute(2 + round % 5);
    ways[round % COUNT(ways)](pair[0]);
    join("read", 1);
  }
  dismiss();
}

CASE(after_data) {
  int pair[2];
  gather();
  for (int round = 0; round < ROUNDS; round++) {
    make_pair(pair);
    waiters[0].fd = waiters[1].fd = pair[0];
    begin(2, receive_late);
    need(write(pair[1], "ab", 2) == 2);
    compute(2 + round % 5);
    ways[round % COUNT(ways)](pair[0]);
    wait_until(over(2) == 1);
    need(write(pair[1], "ab", 2) == 2);
    join("recv", 2);
  }
  dismiss();
}

CASE(after_a_connection) {
  gather();
  for (int round = 0; round < ROUNDS; round++) {
    waiters[0].fd = listener();
    begin(1, accept_late);
    join_them(waiters[0].fd);
    compute(2 + round % 5);
    ways[round % COUNT(ways)](waiters[0].fd);
    join("accept", 1);
  }
  dismiss();
}

/* A child with the same descriptors begins and ends: those who wait go on waiting for theirs. */
static long fill_it(struct waiter *w) {
  static const char much[200000];
  return write(w->fd, much, sizeof much);
}
CASE(shared_with_a_child) {
  int pair[2], status;
  static char bytes[65536];
  gather();
  need(pipe(pair) == 0);
  waiters[0].fd = pair[1];
  begin(1, fill_it);
  pid_t child = syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
  if (child == 0) _exit(3);
  need(waitpid(child, &status, 0) == child);
  say("child %s", ended(status));
  long all = 0, n;
  /* All that is in the pipe at once, and only then a look whether the writer has been woken. */
  for (int left; all < 200000; all += n) {
    for (int ms = 0; ioctl(pair[0], FIONREAD, &left) == 0 && left == 0; ms++) {
      need(ms < 30000);
      sleep_ms(1);
    }
    need((n = read(pair[0], bytes, sizeof bytes)) > 0);
  }
  say("read %ld", all);
  join("write", 1);
  close(pair[0]), close(pair[1]);
  dismiss();
}
