//@ engines
//@ libs: -lrt
//@ seconds: 120
/* What threads wait to read, receive, accept or hear of, in every way (`product.h`). */
#include "product.h"
#include <linux/netlink.h>
#include <netinet/tcp.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/un.h>

static void make_pipe(void) {
  int two[2];
  need(pipe(two) == 0);
  fd = two[0], peer = two[1], unit = 1;
}
static void make_fifo(void) {
  char path[64];
  snprintf(path, sizeof path, "/tmp/entresol-product-%d", getpid());
  need(mkfifo(path, 0600) == 0);
  fd = open(path, O_RDONLY | O_NONBLOCK), peer = open(path, O_WRONLY), unit = 1;
  need(fd >= 0 && peer >= 0 && unlink(path) == 0);
  set_nonblocking(fd, false);
}
static void feed(void) { need(write(peer, "x", 1) == 1); }
static void close_peer(void) { close_it(&peer); }

static void make_pair(int type) {
  int two[2];
  need(socketpair(AF_UNIX, type, 0, two) == 0);
  fd = two[0], peer = two[1], unit = 1;
}
static void make_stream(void) { make_pair(SOCK_STREAM); }
static void make_packets(void) { make_pair(SOCK_SEQPACKET); }
static void make_datagrams(void) { make_pair(SOCK_DGRAM); }

static struct sockaddr_in address;
static socklen_t length;
static void bind_to_any(int of) {
  address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  length = sizeof address;
  need(of >= 0 && bind(of, (void *)&address, length) == 0 && getsockname(of, (void *)&address, &length) == 0);
}
static void make_tcp(void) {
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  bind_to_any(listener);
  need(listen(listener, 8) == 0);
  peer = socket(AF_INET, SOCK_STREAM, 0);
  need(connect(peer, (void *)&address, length) == 0);
  need(setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)) == 0);
  fd = accept(listener, NULL, NULL), unit = 1;
  need(fd >= 0);
  close(listener);
}
static void make_udp(void) {
  fd = socket(AF_INET, SOCK_DGRAM, 0), unit = 1;
  bind_to_any(fd);
  peer = socket(AF_INET, SOCK_DGRAM, 0);
  need(connect(peer, (void *)&address, length) == 0);
}
static void make_netlink(void) {
  struct sockaddr_nl at = {.nl_family = AF_NETLINK};
  socklen_t size = sizeof at;
  fd = socket(AF_NETLINK, SOCK_DGRAM, NETLINK_USERSOCK), peer = socket(AF_NETLINK, SOCK_DGRAM, NETLINK_USERSOCK);
  need(fd >= 0 && peer >= 0 && bind(fd, (void *)&at, size) == 0 && getsockname(fd, (void *)&at, &size) == 0);
  need(connect(peer, (void *)&at, size) == 0);
  unit = 1;
}
static void make_counter(void) { fd = eventfd(0, 0), unit = 8; }
static void make_semaphore(void) { fd = eventfd(0, EFD_SEMAPHORE), unit = 8; }
static void count_one(void) { need(eventfd_write(kept, 1) == 0); }
static void make_timer(void) { fd = timerfd_create(CLOCK_MONOTONIC, 0), unit = 8; }
static void expire(void) {
  struct itimerspec at_once = {.it_value = {.tv_nsec = 1}};
  need(timerfd_settime(kept, 0, &at_once, NULL) == 0);
}
static pid_t receiver;
static void make_signals(void) {
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, SIGRTMIN + 3);
  need(pthread_sigmask(SIG_BLOCK, &one, NULL) == 0);
  fd = signalfd(-1, &one, 0), unit = sizeof(struct signalfd_siginfo), receiver = getpid();
}
static void send_signal(void) { need(kill(receiver, SIGRTMIN + 3) == 0); }
static void take_signals(void) {
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, SIGRTMIN + 3);
  while (sigtimedwait(&one, NULL, &(struct timespec){0}) > 0) {}
}

static char folder[64];
static int created;
static void make_file_events(void) {
  snprintf(folder, sizeof folder, "/tmp/entresol-product-%d", getpid());
  need(mkdir(folder, 0700) == 0);
  fd = inotify_init(), unit = sizeof(struct inotify_event) + 16;
  need(fd >= 0 && inotify_add_watch(fd, folder, IN_CREATE) >= 0);
}
static void create_file(void) {
  char path[96];
  snprintf(path, sizeof path, "%s/%d-%d", folder, getpid() % 10000, created++);
  int file = open(path, O_CREAT | O_EXCL, 0600);
  need(file >= 0 && unlink(path) == 0);
  close(file);
}

static void remove_folder(void) { need(rmdir(folder) == 0); }

static void make_raw(int side) {
  struct termios raw;
  need(tcgetattr(side, &raw) == 0);
  cfmakeraw(&raw);
  need(tcsetattr(side, TCSANOW, &raw) == 0);
}
static void make_pty(void) {
  need(openpty(&fd, &peer, NULL, NULL, NULL) == 0);
  make_raw(peer), unit = 1;
}
static void make_terminal(void) {
  need(openpty(&peer, &fd, NULL, NULL, NULL) == 0);
  make_raw(fd), unit = 1;
}
static void make_lines(void) {
  need(openpty(&peer, &fd, NULL, NULL, NULL) == 0);
  struct termios modes;
  need(tcgetattr(fd, &modes) == 0);
  modes.c_lflag &= ~(tcflag_t)ECHO;
  need(tcsetattr(fd, TCSANOW, &modes) == 0);
  unit = 100;
}
static void feed_line(void) { need(write(peer, "line\n", 5) == 5); }

static void make_queue(void) {
  char name[64];
  snprintf(name, sizeof name, "/entresol-product-%d", getpid());
  struct mq_attr attr = {.mq_maxmsg = 8, .mq_msgsize = 16};
  fd = mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, &attr), unit = 16;
  need(fd >= 0 && mq_unlink(name) == 0);
}
static void send_message(void) { need(mq_send(kept, "x", 1, 0) == 0); }

static void make_listener(void) {
  fd = socket(AF_INET, SOCK_STREAM, 0);
  bind_to_any(fd);
  need(listen(fd, 256) == 0);
}
static void connect_to_it(void) {
  int one = socket(AF_INET, SOCK_STREAM, 0);
  struct linger at_once = {.l_onoff = 1};
  need(connect(one, (void *)&address, length) == 0);
  need(setsockopt(one, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
  close(one);
}
static struct sockaddr_un local;
static socklen_t local_length;
static void make_local_listener(void) {
  fd = socket(AF_UNIX, SOCK_STREAM, 0);
  local = (struct sockaddr_un){.sun_family = AF_UNIX};
  local_length = sizeof local;
  need(fd >= 0 && bind(fd, (void *)&local, sizeof(sa_family_t)) == 0 && listen(fd, 256) == 0);
  need(getsockname(fd, (void *)&local, &local_length) == 0);
}
static void connect_locally(void) {
  int one = socket(AF_UNIX, SOCK_STREAM, 0);
  need(connect(one, (void *)&local, local_length) == 0);
  close(one);
}

/* One that is told about a child: it can only be asked. */
static pid_t doomed;
static void make_child(void) {
  doomed = fork();
  need(doomed >= 0);
  if (doomed == 0)
    for (;;) pause();
  fd = (int)syscall(SYS_pidfd_open, doomed, 0);
  need(fd >= 0);
}
static void end_child(void) { need(kill(doomed, SIGKILL) == 0); }
static void reap_child(void) {
  end_child();
  need(waitpid(doomed, NULL, 0) == doomed);
}
static void make_nested(void) {
  make_pipe();
  int inner = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  need(inner >= 0 && epoll_ctl(inner, EPOLL_CTL_ADD, fd, &event) == 0);
  extra = fd, fd = inner;
}

static long do_read(struct waiter *w) {
  char bytes[256];
  return read(w->fd, bytes, unit);
}
static long do_readv(struct waiter *w) {
  char bytes[256];
  struct iovec parts[2] = {{bytes, 0}, {bytes, unit}};
  return readv(w->fd, parts, 2);
}
static long do_preadv2(struct waiter *w) {
  char bytes[256];
  struct iovec part = {bytes, unit};
  return preadv2(w->fd, &part, 1, -1, 0);
}
static long do_recv(struct waiter *w) { return recv(w->fd, w->bytes, 1, 0); }
static long do_recvfrom(struct waiter *w) {
  struct sockaddr_storage from;
  socklen_t size = sizeof from;
  return recvfrom(w->fd, w->bytes, 1, 0, (void *)&from, &size);
}
static long do_recvmsg(struct waiter *w) {
  struct iovec part = {w->bytes, 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  return recvmsg(w->fd, &message, 0);
}
static long do_recvmmsg(struct waiter *w) {
  struct iovec part = {w->bytes, 1};
  struct mmsghdr message = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
  long n = recvmmsg(w->fd, &message, 1, 0, NULL);
  return n < 0 ? n : n * 10 + message.msg_len;
}
static long do_recv_all(struct waiter *w) { return recv(w->fd, w->bytes, 1, MSG_WAITALL); }
static long take_it(int one) {
  if (one >= 0) close(one);
  return one < 0 ? -1 : 1;
}
static long do_accept(struct waiter *w) { return take_it(accept(w->fd, NULL, NULL)); }
static long do_accept4(struct waiter *w) { return take_it(accept4(w->fd, NULL, NULL, SOCK_CLOEXEC)); }
static long do_mq_receive(struct waiter *w) {
  struct timespec at = timespec_of(now_ns(CLOCK_REALTIME) + timeout_ms * INT64_C(1000000));
  return timeout_ms < 0 ? mq_receive(w->fd, w->bytes, 16, NULL) : mq_timedreceive(w->fd, w->bytes, 16, NULL, &at);
}
static long do_splice(struct waiter *w) {
  int two[2];
  need(pipe(two) == 0);
  long n = splice(w->fd, NULL, two[1], NULL, 1, 0);
  int error = errno;
  close(two[0]), close(two[1]);
  errno = error;
  return n;
}

static const struct form forms[] = {
    {"read", TRANSFERS, do_read, .first = true},
    {"readv", TRANSFERS, .call = do_readv},
    {"preadv2", TRANSFERS, .call = do_preadv2},
    {"recv", SOCKETS, do_recv, .first = true},
    {"recvfrom", SOCKETS, .call = do_recvfrom},
    {"recvmsg", SOCKETS, .call = do_recvmsg},
    {"recvmmsg", SOCKETS, .call = do_recvmmsg},
    {"recv all", SOCKETS, .call = do_recv_all},
    {"splice", PIPES, do_splice, .first = true},
    {"accept", ACCEPTS, do_accept, .first = true},
    {"accept4", ACCEPTS, .call = do_accept4},
    {"mq_timedreceive", QUEUES, do_mq_receive, .has_limit = true, .first = true},
    FORMS_THAT_ASK,
};

enum { BYTES = TRANSFERS | ASKS, OF_SOCKET = TRANSFERS | SOCKETS | ASKS };
static const struct file
    the_pipe = {"pipe", BYTES | PIPES | MANY_FORMS, make_pipe, feed, close_peer, .shuts_down = false},
    the_fifo = {"fifo", BYTES, make_fifo, feed, close_peer, .shuts_down = false},
    the_stream = {"unix stream", OF_SOCKET, make_stream, feed, close_peer, .shuts_down = true, .has_limit = true},
    the_packets = {"unix packets", OF_SOCKET, make_packets, feed, close_peer, .shuts_down = true, .has_limit = true},
    the_datagrams = {"unix datagrams", OF_SOCKET, make_datagrams, feed, NULL, .shuts_down = true, .has_limit = true},
    the_tcp = {"tcp", OF_SOCKET | MANY_FORMS, make_tcp, feed, close_peer, .shuts_down = true, .has_limit = true},
    the_udp = {"udp", OF_SOCKET, make_udp, feed, NULL, .shuts_down = true, .has_limit = true},
    the_netlink = {"netlink", OF_SOCKET, make_netlink, feed, NULL, .has_limit = true},
    the_counter = {"counter", BYTES, make_counter, count_one, NULL, .coalesces = true},
    the_semaphore = {"semaphore", BYTES, make_semaphore, count_one, NULL, .coalesces = false},
    the_timer = {"timer", BYTES, make_timer, expire, NULL, .coalesces = true},
    the_signals = {"signals", BYTES, make_signals, send_signal, NULL, take_signals, .own = true},
    the_file_events = {"file events", BYTES, make_file_events, create_file, NULL, remove_folder, .coalesces = true},
    the_pty = {"pty", BYTES, make_pty, feed, close_peer, .shuts_down = false},
    the_terminal = {"terminal", BYTES, make_terminal, feed, close_peer, .shuts_down = false},
    the_lines = {"lines", BYTES, make_lines, feed_line, close_peer, .shuts_down = false},
    the_queue = {"queue", QUEUES | ASKS, make_queue, send_message, NULL, .shuts_down = false},
    the_listener = {"listener", ACCEPTS | ASKS | MANY_FORMS, make_listener, connect_to_it, NULL, .has_limit = true},
    the_local_listener = {"local listener", ACCEPTS | ASKS, make_local_listener, connect_locally, NULL, .has_limit = true},
    the_child = {"child", ASKS, make_child, end_child, NULL, reap_child, .coalesces = true},
    the_nested = {"nested", ASKS, make_nested, feed, close_peer, .shuts_down = false};

static void all_ways(const struct file *file) {
  asked = POLLIN;
  all_ways_of(file, forms, COUNT(forms), false);
}

CASE(pipes) { all_ways(&the_pipe); }
CASE(fifos) { all_ways(&the_fifo); }
CASE(unix_streams) { all_ways(&the_stream); }
CASE(unix_packets) { all_ways(&the_packets); }
CASE(unix_datagrams) { all_ways(&the_datagrams); }
CASE(tcp) { all_ways(&the_tcp); }
CASE(udp) { all_ways(&the_udp); }
CASE(netlink) { all_ways(&the_netlink); }
CASE(counters) { all_ways(&the_counter); }
CASE(semaphores) { all_ways(&the_semaphore); }
CASE(timers) { all_ways(&the_timer); }
CASE(signals) { all_ways(&the_signals); }
CASE(file_events) { all_ways(&the_file_events); }
CASE(ptys) { all_ways(&the_pty); }
CASE(terminals) { all_ways(&the_terminal); }
CASE(lines) { all_ways(&the_lines); }
CASE(queues) { all_ways(&the_queue); }
CASE(listeners) { all_ways(&the_listener); }
CASE(local_listeners) { all_ways(&the_local_listener); }
CASE(children) { all_ways(&the_child); }
CASE(nested) { all_ways(&the_nested); }

/* How many combinations that is. */
CASE(counted) {
  static const struct file *files[] = {
      &the_pipe,    &the_fifo,      &the_stream, &the_packets, &the_datagrams,   &the_tcp,   &the_udp,
      &the_netlink, &the_counter,   &the_semaphore, &the_timer, &the_signals,    &the_file_events, &the_pty,
      &the_terminal, &the_lines,    &the_queue,  &the_listener, &the_local_listener, &the_child, &the_nested};
  int n = 0;
  asked = POLLIN;
  for (int i = 0; i < COUNT(files); i++) n += all_ways_of(files[i], forms, COUNT(forms), true);
  say("%d combinations", n);
  must(n >= 500);
}
