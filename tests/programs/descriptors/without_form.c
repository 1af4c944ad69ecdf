//@ engines
//@ seconds: 60
//@ libs: -lrt
/* Calls that have no form that does not wait: FIFOs, pseudo-terminals, inotify, message queues, connect; and poll of many
 * descriptors. Each with one thread that waits and with many. */
#include "waiters.h"
#include <linux/netlink.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <pty.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <termios.h>

static char large[1 << 20];

static long read_some(struct waiter *w) { return read(w->fd, w->bytes, sizeof w->bytes); }
static long read_one(struct waiter *w) { return read(w->fd, w->bytes, 1); }
static long write_page(struct waiter *w) { return write(w->fd, large, 4096); }
static long write_large(struct waiter *w) { return write(w->fd, large, 200000); }

/* With one thread, then with all. */
static const int counts[] = {1, WAITERS};

static int fifo(int *writer) {
  char path[64];
  snprintf(path, sizeof path, "/tmp/without-form-%d", getpid());
  unlink(path);
  need(mkfifo(path, 0600) == 0);
  int fd = open(path, O_RDWR);
  *writer = open(path, O_WRONLY);
  int reader = open(path, O_RDONLY);
  need(fd >= 0 && *writer >= 0 && reader >= 0 && unlink(path) == 0);
  close(fd);
  return reader;
}
static void all_wait_on(int fd) {
  for (int i = 0; i < WAITERS; i++) waiters[i].fd = fd;
}
static void fill(int fd) {
  int flags = fcntl(fd, F_GETFL);
  need(fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0);
  while (write(fd, large, 4096) > 0) {}
  need(fcntl(fd, F_SETFL, flags) == 0);
}

CASE(fifo_read) {
  for (int k = 0; k < COUNT(counts); k++) {
    int writer, reader = fifo(&writer);
    all_wait_on(reader);
    begin(counts[k], read_one);
    for (int i = 0; i < counts[k]; i++) {
      need(write(writer, "x", 1) == 1);
      wait_until(over(counts[k]) == i + 1);
    }
    join("one by one", counts[k]);
    begin(counts[k], read_one);
    need(write(writer, large, (counts[k] + 1) / 2) == (counts[k] + 1) / 2);
    wait_until(over(counts[k]) >= (counts[k] + 1) / 2);
    close(writer);
    join("half and the end", counts[k]);
    close(reader);
  }
}

/* A FIFO that nobody has opened for writing is at its end; poll says so only when there has been a writer. */
CASE(fifo_without_writer) {
  for (int k = 0; k < COUNT(counts); k++) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/without-form-%d", getpid());
    need(mkfifo(path, 0600) == 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    need(reader >= 0 && fcntl(reader, F_SETFL, 0) == 0);
    all_wait_on(reader);
    begin(counts[k], read_one);
    join("never a writer", counts[k]);
    int writer = open(path, O_WRONLY);
    need(writer >= 0 && unlink(path) == 0);
    begin(counts[k], read_one);
    need(write(writer, large, (counts[k] + 1) / 2) == (counts[k] + 1) / 2);
    wait_until(over(counts[k]) >= (counts[k] + 1) / 2);
    close(writer);
    join("half and the end", counts[k]);
    begin(counts[k], read_one);
    join("no writer any more", counts[k]);
    close(reader);
  }
}

CASE(fifo_write) {
  for (int k = 0; k < COUNT(counts); k++) {
    int writer, reader = fifo(&writer);
    all_wait_on(writer);
    fill(writer);
    begin(counts[k], write_page);
    for (int i = 0; i < counts[k]; i++) {
      need(read(reader, large, 4096) == 4096);
      wait_until(over(counts[k]) == i + 1);
    }
    join("pages", counts[k]);
    begin(counts[k], write_large);
    for (long left = 65536 + counts[k] * 200000L; left > 0;) left -= read(reader, large, 65536);
    join("more than fits", counts[k]);
    fill(writer);
    begin(counts[k], write_page);
    signal(SIGPIPE, SIG_IGN);
    close(reader);
    join("no reader", counts[k]);
    close(writer);
  }
}

CASE(pseudo_terminal) {
  for (int k = 0; k < COUNT(counts); k++) {
    int main_side, other_side;
    struct termios raw;
    need(openpty(&main_side, &other_side, NULL, NULL, NULL) == 0 && tcgetattr(other_side, &raw) == 0);
    cfmakeraw(&raw);
    need(tcsetattr(other_side, TCSANOW, &raw) == 0);
    all_wait_on(main_side);
    begin(counts[k], read_one);
    for (int i = 0; i < counts[k]; i++) {
      need(write(other_side, "x", 1) == 1);
      wait_until(over(counts[k]) == i + 1);
    }
    join("main side", counts[k]);
    all_wait_on(other_side);
    begin(counts[k], read_one);
    for (int i = 0; i < counts[k]; i++) {
      need(write(main_side, "x", 1) == 1);
      wait_until(over(counts[k]) == i + 1);
    }
    join("terminal", counts[k]);
    /* Gives up after a tenth of a second, one after the other. */
    raw.c_cc[VMIN] = 0, raw.c_cc[VTIME] = 1;
    need(tcsetattr(other_side, TCSANOW, &raw) == 0);
    begin(1, read_one);
    join("terminal with a limit", 1);
    all_wait_on(main_side);
    begin(counts[k], read_one);
    close(other_side);
    join("hung up", counts[k]);
    close(main_side);
  }
}

CASE(file_events) {
  for (int k = 0; k < COUNT(counts); k++) {
    char folder[64], path[80];
    snprintf(folder, sizeof folder, "/tmp/without-form-%d", getpid());
    need(mkdir(folder, 0700) == 0);
    int fd = inotify_init();
    need(fd >= 0 && inotify_add_watch(fd, folder, IN_CREATE) >= 0);
    all_wait_on(fd);
    begin(counts[k], read_some);
    for (int i = 0; i < counts[k]; i++) {
      snprintf(path, sizeof path, "%s/%d", folder, i);
      close(open(path, O_CREAT, 0600));
      wait_until(over(counts[k]) == i + 1);
    }
    join("inotify", counts[k]);
    for (int i = 0; i < counts[k]; i++) snprintf(path, sizeof path, "%s/%d", folder, i), unlink(path);
    rmdir(folder);
    close(fd);
  }
}

static long receive(struct waiter *w) { return mq_receive(w->fd, w->bytes, sizeof w->bytes, NULL); }
static long send_one(struct waiter *w) { return mq_send(w->fd, "x", 1, 0); }
static long receive_for_a_while(struct waiter *w) {
  struct timespec at;
  clock_gettime(CLOCK_REALTIME, &at);
  int64_t end = at.tv_sec * INT64_C(1000000000) + at.tv_nsec + 30000000;
  at = (struct timespec){end / 1000000000, end % 1000000000};
  long n = mq_timedreceive(w->fd, w->bytes, sizeof w->bytes, NULL, &at);
  int error = errno;
  clock_gettime(CLOCK_REALTIME, &at);
  must(at.tv_sec * INT64_C(1000000000) + at.tv_nsec >= end);
  errno = error;
  return n;
}
static long receive_wrongly(struct waiter *w) {
  return mq_timedreceive(w->fd, w->bytes, sizeof w->bytes, NULL, &(struct timespec){0, -1});
}

CASE(message_queue) {
  for (int k = 0; k < COUNT(counts); k++) {
    char name[64];
    snprintf(name, sizeof name, "/without-form-%d", getpid());
    struct mq_attr attr = {.mq_maxmsg = 4, .mq_msgsize = sizeof waiters[0].bytes};
    int queue = mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, &attr);
    need(queue >= 0 && mq_unlink(name) == 0);
    all_wait_on(queue);
    begin(counts[k], receive);
    for (int i = 0; i < counts[k]; i++) {
      need(mq_send(queue, "abc", i % 3 + 1, 0) == 0);
      wait_until(over(counts[k]) == i + 1);
    }
    join("receive", counts[k]);
    for (int i = 0; i < 4; i++) need(mq_send(queue, "x", 1, 0) == 0);
    begin(counts[k], send_one);
    for (int i = 0; i < counts[k] + 4; i++) need(mq_receive(queue, large, sizeof large, NULL) == 1);
    join("send", counts[k]);
    begin(counts[k], receive_for_a_while);
    join("time is over", counts[k]);
    begin(counts[k], receive_wrongly);
    join("no time", counts[k]);
    close(queue);
  }
}

static void nothing(int signal) { (void)signal; }

CASE(interrupted) {
  struct sigaction action = {.sa_handler = nothing};
  need(sigaction(SIGUSR1, &action, NULL) == 0);
  for (int k = 0; k < COUNT(counts); k++) {
    int writer, reader = fifo(&writer);
    all_wait_on(reader);
    begin(counts[k], read_one);
    for (int i = 0; i < counts[k]; i++) need(pthread_kill(waiters[i].thread, SIGUSR1) == 0);
    join("fifo", counts[k]);
    close(reader), close(writer);
  }
}

static struct sockaddr_in address;
static long connect_one(struct waiter *w) {
  w->fd = socket(AF_INET, SOCK_STREAM, 0);
  long n = connect(w->fd, (void *)&address, sizeof address);
  int error = errno;
  close(w->fd);
  errno = error;
  return n;
}
static long connect_for_a_while(struct waiter *w) {
  struct timeval limit = {.tv_usec = 30000};
  w->fd = socket(AF_INET, SOCK_STREAM, 0);
  need(setsockopt(w->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0);
  long n = connect(w->fd, (void *)&address, sizeof address);
  int error = errno;
  close(w->fd);
  errno = error;
  return n;
}

/* The queue of a listener that accepts nobody is full after two: the third waits. */
CASE(connecting) {
  for (int k = 0; k < COUNT(counts); k++) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), first[2];
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    need(fd >= 0 && !bind(fd, (void *)&address, len) && !listen(fd, 0) && !getsockname(fd, (void *)&address, &len));
    for (int i = 0; i < COUNT(first); i++) first[i] = socket(AF_INET, SOCK_STREAM, 0);
    need(connect(first[0], (void *)&address, len) == 0);
    begin(counts[k], connect_for_a_while);
    join("time is over", counts[k]);
    for (int i = 0; i < COUNT(first); i++) close(first[i]);
    close(fd);
    begin(counts[k], connect_one);
    join("nobody listens", counts[k]);
  }
}

enum { MANY = 300 };
static int many[MANY][2];
static long poll_many(struct waiter *w) {
  struct pollfd all[MANY];
  for (int i = 0; i < MANY; i++) all[i] = (struct pollfd){.fd = many[i][0], .events = POLLIN};
  long n = poll(all, MANY, -1);
  return n < 0 ? n : n * 1000 + !!(all[w->number * 7 % MANY].revents & POLLIN);
}
static long select_many(struct waiter *w) {
  fd_set set;
  FD_ZERO(&set);
  int last = 0;
  for (int i = 0; i < MANY; i++) {
    FD_SET(many[i][0], &set);
    if (many[i][0] > last) last = many[i][0];
  }
  long n = select(last + 1, &set, NULL, NULL, NULL);
  return n < 0 ? n : n * 1000 + !!FD_ISSET(many[w->number * 7 % MANY][0], &set);
}

CASE(polling_many) {
  for (int i = 0; i < MANY; i++) need(pipe(many[i]) == 0);
  for (int k = 0; k < COUNT(counts); k++) {
    long (*calls[])(struct waiter *) = {poll_many, select_many};
    for (int c = 0; c < COUNT(calls); c++) {
      begin(counts[k], calls[c]);
      need(write(many[7 * (counts[k] - 1) % MANY][1], "x", 1) == 1);
      join(c ? "select" : "poll", counts[k]);
      need(read(many[7 * (counts[k] - 1) % MANY][0], large, 1) == 1);
    }
  }
  for (int i = 0; i < MANY; i++) close(many[i][0]), close(many[i][1]);
}

/* Ends of waits that an epoll instance does not report: the host wakes only who waits for them itself. */
static long write_some(struct waiter *w) {
  struct iovec parts[2] = {{large, 500}, {large + 500, 500}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  switch (w->number % 3) {
    case 0: return send(w->fd, large, 1000, MSG_NOSIGNAL);
    case 1: return sendmsg(w->fd, &message, MSG_NOSIGNAL);
    default: return writev(w->fd, parts, 2);
  }
}
CASE(shut_down) {
  signal(SIGPIPE, SIG_IGN);
  for (int k = 0; k < COUNT(counts); k++) {
    for (int own = 0; own < 2; own++) {
      int two[2];
      need(socketpair(AF_UNIX, SOCK_STREAM, 0, two) == 0);
      all_wait_on(two[0]);
      while (send(two[0], large, 65536, MSG_DONTWAIT) > 0) {}
      while (send(two[0], large, 100, MSG_DONTWAIT) > 0) {}
      begin(counts[k], write_some);
      need(shutdown(two[!own], own ? SHUT_WR : SHUT_RD) == 0);
      join(own ? "shut down here" : "shut down there", counts[k]);
      close(two[0]), close(two[1]);
    }
  }
}

static struct sockaddr_nl receiver;
static long send_message(struct waiter *w) {
  return sendto(w->fd, large, 4096, 0, (void *)&receiver, sizeof receiver);
}
CASE(netlink) {
  for (int k = 0; k < COUNT(counts); k++) {
    int in = socket(AF_NETLINK, SOCK_RAW, NETLINK_USERSOCK), out = socket(AF_NETLINK, SOCK_RAW, NETLINK_USERSOCK);
    receiver = (struct sockaddr_nl){.nl_family = AF_NETLINK};
    socklen_t len = sizeof receiver;
    need(in >= 0 && out >= 0 && !bind(in, (void *)&receiver, len) && !getsockname(in, (void *)&receiver, &len));
    while (sendto(out, large, 4096, MSG_DONTWAIT, (void *)&receiver, sizeof receiver) > 0) {}
    all_wait_on(out);
    begin(counts[k], send_message);
    while (over(counts[k]) < counts[k])
      if (recv(in, large, 4096, MSG_DONTWAIT) < 0) sched_yield();
    join("netlink", counts[k]);
    close(in), close(out);
  }
}

/* A read of nothing waits all the same. */
static long read_nothing(struct waiter *w) { return read(w->fd, w->bytes, 0); }
CASE(read_nothing_of_events) {
  char folder[64], path[80];
  snprintf(folder, sizeof folder, "/tmp/without-form-%d", getpid());
  snprintf(path, sizeof path, "%s/x", folder);
  for (int k = 0; k < COUNT(counts); k++) {
    need(mkdir(folder, 0700) == 0);
    int fd = inotify_init();
    need(fd >= 0 && inotify_add_watch(fd, folder, IN_CREATE) >= 0);
    all_wait_on(fd);
    begin(counts[k], read_nothing);
    close(open(path, O_CREAT, 0600));
    join("nothing", counts[k]);
    unlink(path), rmdir(folder), close(fd);
  }
}

CASE(copy_of_a_message) {
  int queue = msgget(IPC_PRIVATE, 0600);
  struct {
    long type;
    char text[8];
  } message = {.type = 1};
  need(queue >= 0 && msgsnd(queue, &message, 4, 0) == 0);
  say("waits %s", result(msgrcv(queue, &message, 8, 0, 040000)));
  say("does not %s", result(msgrcv(queue, &message, 8, 0, 040000 | IPC_NOWAIT)));
  need(msgctl(queue, IPC_RMID, NULL) == 0);
}
