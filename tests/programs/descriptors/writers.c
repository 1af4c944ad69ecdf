//@ engines
//@ libs: -lrt
//@ seconds: 120
/* What threads wait to write, send or pass on, in every way (`product.h`). */
#include "product.h"

static char data[1 << 16] __attribute__((aligned(4096)));

static void fill_by(int of, size_t size) {
  set_nonblocking(of, true);
  while (write(of, data, size) > 0) {}
  set_nonblocking(of, false);
}
/* The host passes some of it on later, which makes room once more, until the reader's buffer is full (N_TTY_BUF_SIZE). */
static void fill_slowly(int of) {
  struct pollfd room = {.fd = of, .events = POLLOUT};
  int passed_on;
  do {
    fill_by(of, 4096);
    fill_by(of, 1);
    need(ioctl(peer, FIONREAD, &passed_on) == 0);
  } while (poll(&room, 1, 1) == 1 || passed_on < 4095);
}
static void drain_peer(void) {
  set_nonblocking(peer, true);
  while (read(peer, data, sizeof data) > 0) {}
  set_nonblocking(peer, false);
}
static void close_peer(void) { close_it(&peer); }

static void make_pipe(void) {
  int two[2];
  need(pipe(two) == 0);
  fd = two[1], peer = two[0], unit = 4096;
  fill_by(fd, unit);
}
static void make_fifo(void) {
  char path[64];
  snprintf(path, sizeof path, "/tmp/entresol-product-%d", getpid());
  need(mkfifo(path, 0600) == 0);
  peer = open(path, O_RDONLY | O_NONBLOCK), fd = open(path, O_WRONLY), unit = 4096;
  need(fd >= 0 && peer >= 0 && unlink(path) == 0);
  set_nonblocking(peer, false);
  fill_by(fd, unit);
}
static void take_page(void) { need(read(peer, data, 4096) == 4096); }

static void make_pair(int type) {
  int two[2];
  need(socketpair(AF_UNIX, type, 0, two) == 0);
  fd = two[0], peer = two[1], unit = 1000;
  need(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){8192}, sizeof(int)) == 0);
  fill_by(fd, unit);
}
static void make_stream(void) { make_pair(SOCK_STREAM); }
static void make_packets(void) { make_pair(SOCK_SEQPACKET); }
static void make_datagrams(void) { make_pair(SOCK_DGRAM); }
static void make_tcp(void) {
  int listener = socket(AF_INET, SOCK_STREAM, 0), size = 8192;
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof at;
  need(listener >= 0 && bind(listener, (void *)&at, length) == 0 && listen(listener, 8) == 0);
  need(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &size, sizeof size) == 0);
  need(getsockname(listener, (void *)&at, &length) == 0);
  fd = socket(AF_INET, SOCK_STREAM, 0), unit = 1000;
  need(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size) == 0);
  need(connect(fd, (void *)&at, length) == 0);
  peer = accept(listener, NULL, NULL);
  need(peer >= 0);
  close(listener);
  fill_by(fd, unit);
}
static void make_counter(void) {
  fd = eventfd(0, 0), unit = 8;
  need(eventfd_write(fd, UINT64_MAX - 1) == 0);
}
static void take_all(void) {
  eventfd_t value;
  need(eventfd_read(kept, &value) == 0);
}
static void make_raw(int side) {
  struct termios raw;
  need(tcgetattr(side, &raw) == 0);
  cfmakeraw(&raw);
  need(tcsetattr(side, TCSANOW, &raw) == 0);
}
static void make_pty(void) {
  need(openpty(&fd, &peer, NULL, NULL, NULL) == 0);
  make_raw(peer), unit = 1;
  fill_slowly(fd);
}
static void make_terminal(void) {
  need(openpty(&peer, &fd, NULL, NULL, NULL) == 0);
  make_raw(fd), unit = 1;
  fill_slowly(fd);
}
static void make_queue(void) {
  char name[64];
  snprintf(name, sizeof name, "/entresol-product-%d", getpid());
  struct mq_attr attr = {.mq_maxmsg = 4, .mq_msgsize = 16};
  fd = mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, &attr), unit = 1;
  need(fd >= 0 && mq_unlink(name) == 0);
  for (int i = 0; i < 4; i++) need(mq_send(fd, "x", 1, 0) == 0);
}
static void take_message(void) { need(mq_receive(kept, data, 16, NULL) == 1); }

static const uint64_t one = 1;
static const void *what(void) { return unit == 8 ? (const void *)&one : data; }
static long do_write(struct waiter *w) { return write(w->fd, what(), unit); }
static long do_writev(struct waiter *w) {
  struct iovec parts[3] = {{data, 0}, {(void *)what(), unit}, {data, 0}};
  return writev(w->fd, parts, 3);
}
static long do_pwritev2(struct waiter *w) {
  struct iovec part = {(void *)what(), unit};
  return pwritev2(w->fd, &part, 1, -1, 0);
}
static long do_send(struct waiter *w) { return send(w->fd, data, unit, 0); }
static long do_sendmsg(struct waiter *w) {
  struct iovec parts[2] = {{data, 1}, {data, unit - 1}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  return sendmsg(w->fd, &message, 0);
}
static long do_sendmmsg(struct waiter *w) {
  struct iovec part = {data, unit};
  struct mmsghdr message = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
  long n = sendmmsg(w->fd, &message, 1, 0);
  return n < 0 ? n : n * 10000 + message.msg_len;
}
static long do_splice(struct waiter *w) {
  int two[2];
  need(pipe(two) == 0 && write(two[1], data, 4096) == 4096);
  long n = splice(two[0], NULL, w->fd, NULL, unit, 0);
  int error = errno;
  close(two[0]), close(two[1]);
  errno = error;
  return n;
}
static long do_tee(struct waiter *w) {
  int two[2];
  need(pipe(two) == 0 && write(two[1], data, 4096) == 4096);
  long n = tee(two[0], w->fd, unit, 0);
  int error = errno;
  close(two[0]), close(two[1]);
  errno = error;
  return n;
}
static long do_vmsplice(struct waiter *w) {
  struct iovec part = {data, unit};
  return vmsplice(w->fd, &part, 1, 0);
}
static long do_sendfile(struct waiter *w) {
  int file = memfd_create("product", 0);
  need(file >= 0 && write(file, data, unit) == (ssize_t)unit);
  off_t from = 0;
  long n = sendfile(w->fd, file, &from, unit);
  int error = errno;
  close(file);
  errno = error;
  return n;
}
static long do_mq_send(struct waiter *w) {
  struct timespec at = timespec_of(now_ns(CLOCK_REALTIME) + timeout_ms * INT64_C(1000000));
  return timeout_ms < 0 ? mq_send(w->fd, "y", 1, 0) : mq_timedsend(w->fd, "y", 1, 0, &at);
}

static const struct form forms[] = {
    {"write", TRANSFERS, do_write, .first = true},
    {"writev", TRANSFERS, .call = do_writev},
    {"pwritev2", TRANSFERS, .call = do_pwritev2},
    {"send", SOCKETS, do_send, .first = true},
    {"sendmsg", SOCKETS, .call = do_sendmsg},
    {"sendmmsg", SOCKETS, .call = do_sendmmsg},
    {"splice", PIPES, do_splice, .first = true},
    {"tee", PIPES, do_tee, .by_one = true},
    {"vmsplice", PIPES, .call = do_vmsplice},
    {"sendfile", PIPES, .call = do_sendfile},
    {"mq_timedsend", QUEUES, do_mq_send, .has_limit = true, .first = true},
    FORMS_THAT_ASK,
};

enum { BYTES = TRANSFERS | ASKS, OF_SOCKET = TRANSFERS | SOCKETS | ASKS };
static const struct file
    the_pipe = {"pipe", BYTES | PIPES | MANY_FORMS, make_pipe, take_page, close_peer, .in_turn = true},
    the_fifo = {"fifo", BYTES, make_fifo, take_page, close_peer, .in_turn = true},
    the_stream = {"unix stream", OF_SOCKET | MANY_FORMS, make_stream, drain_peer, NULL, .shuts_down = true, .has_limit = true},
    the_packets = {"unix packets", OF_SOCKET, make_packets, drain_peer, close_peer, .shuts_down = true, .has_limit = true},
    the_datagrams = {"unix datagrams", OF_SOCKET, make_datagrams, drain_peer, NULL, .has_limit = true},
    the_tcp = {"tcp", OF_SOCKET, make_tcp, drain_peer, NULL, .has_limit = true, .makes_room = true},
    the_counter = {"counter", BYTES, make_counter, take_all, NULL, .coalesces = true},
    the_pty = {"pty", BYTES, make_pty, drain_peer, NULL, .shuts_down = false},
    the_terminal = {"terminal", BYTES, make_terminal, drain_peer, NULL, .shuts_down = false},
    the_queue = {"queue", QUEUES | ASKS, make_queue, take_message, NULL, .in_turn = true};

static void all_ways(const struct file *file) {
  asked = POLLOUT;
  all_ways_of(file, forms, COUNT(forms), false);
}

CASE(pipes) { all_ways(&the_pipe); }
CASE(fifos) { all_ways(&the_fifo); }
CASE(unix_streams) { all_ways(&the_stream); }
CASE(unix_packets) { all_ways(&the_packets); }
CASE(unix_datagrams) { all_ways(&the_datagrams); }
CASE(tcp) { all_ways(&the_tcp); }
CASE(counters) { all_ways(&the_counter); }
CASE(ptys) { all_ways(&the_pty); }
CASE(terminals) { all_ways(&the_terminal); }
CASE(queues) { all_ways(&the_queue); }

/* How many combinations that is. */
CASE(counted) {
  static const struct file *files[] = {&the_pipe, &the_fifo,    &the_stream, &the_packets,  &the_datagrams,
                                       &the_tcp,  &the_counter, &the_pty,    &the_terminal, &the_queue};
  int n = 0;
  asked = POLLOUT;
  for (int i = 0; i < COUNT(files); i++) n += all_ways_of(files[i], forms, COUNT(forms), true);
  say("%d combinations", n);
  must(n >= 300);
}
