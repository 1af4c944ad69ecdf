//@ table
/* How much is transferred: whole, in part, or not at all, while ticks and kicks come and threads compete. */
#include "tried.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { MUCH = 200000 };
static char much[MUCH], some[MUCH];
static int from, to; /* the reading and the writing end */

static void make_pipe(void) {
  int ends[2];
  need(pipe(ends) == 0);
  from = ends[0], to = ends[1];
}
static void make_sockets(int type) {
  int ends[2];
  need(socketpair(AF_UNIX, type, 0, ends) == 0);
  from = ends[0], to = ends[1];
  int size = 20000;
  need(setsockopt(to, SOL_SOCKET, SO_SNDBUF, &size, sizeof size) == 0);
}

static int file_of_much(void) {
  int file = memfd_create("much", 0);
  need(file >= 0 && write(file, much, MUCH) == MUCH && lseek(file, 0, SEEK_SET) == 0);
  return file;
}

static void *drain_slowly(void *argument) {
  long sum = 0, got;
  while ((got = read(from, some, 1 + sum % 5000)) > 0) {
    sum += got;
    if (sum % 7 == 0) sleep_ms(1);
  }
  *(long *)argument = sum;
  return NULL;
}

/* One call, one answer, the full length, however often the carrier was disturbed. */
static void write_slowly(const char *call, long (*transfer)(void)) {
  long sum = 0;
  load_begin();
  pthread_t reader = start(drain_slowly, &sum);
  tried(call, "200,000 bytes, slow reader", transfer());
  close(to);
  finish(reader);
  load_end();
  close(from);
  say("read: %ld", sum);
}

static int much_file;
static long by_write(void) { return write(to, much, MUCH); }
static long by_writev(void) {
  struct iovec parts[3] = {{much, 10}, {much, 100000}, {much, MUCH - 100010}};
  return writev(to, parts, 3);
}
static long by_send(void) { return send(to, much, MUCH, 0); }
static long by_sendmsg(void) {
  struct iovec parts[2] = {{much, 10}, {much, MUCH - 10}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  return sendmsg(to, &message, 0);
}
static long by_sendfile(void) {
  off_t at = 0;
  return sendfile(to, much_file, &at, MUCH);
}
static long by_vmsplice(void) { return vmsplice(to, &(struct iovec){much, MUCH}, 1, 0); }

CASE(write_to_a_pipe) { make_pipe(), write_slowly("write", by_write); }
CASE(writev_to_a_pipe) { make_pipe(), write_slowly("writev", by_writev); }
CASE(vmsplice_to_a_pipe) { make_pipe(), write_slowly("vmsplice", by_vmsplice); }
CASE(write_to_a_socket) { make_sockets(SOCK_STREAM), write_slowly("write", by_write); }
CASE(send_to_a_socket) { make_sockets(SOCK_STREAM), write_slowly("sendto", by_send); }
CASE(sendmsg_to_a_socket) { make_sockets(SOCK_STREAM), write_slowly("sendmsg", by_sendmsg); }
CASE(sendfile_to_a_pipe) {
  much_file = file_of_much();
  make_pipe(), write_slowly("sendfile", by_sendfile);
  close(much_file);
}
CASE(sendfile_to_a_socket) {
  much_file = file_of_much();
  make_sockets(SOCK_STREAM), write_slowly("sendfile", by_sendfile);
  close(much_file);
}

/* A signal with a handler in the middle: what is done so far is the answer, whatever the handler's flags. */
static atomic_int handled;
static void on_signal(int signal) { handled += signal > 0; }
static long (*transfer_now)(void);
static void *transfer_once(void *argument) { return argument = (void *)transfer_now(); }

/* Whether what was sent fills what there is room for: the sender is in the middle of the rest. */
static bool is_full(void) { return poll(&(struct pollfd){.fd = to, .events = POLLOUT}, 1, 0) == 0; }
static bool is_empty(void) { return poll(&(struct pollfd){.fd = from, .events = POLLIN}, 1, 0) == 0; }

static void cut_short(const char *call, const char *way, long (*transfer)(void), int flags) {
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
  need(sigaction(SIGUSR1, &action, NULL) == 0);
  handled = 0;
  transfer_now = transfer;
  pthread_t thread = start(transfer_once, NULL);
  /* A signal before the call would cut nothing short, and nobody reads. */
  wait_until(is_full());
  settle();
  pthread_kill(thread, SIGUSR1);
  wait_until(handled == 1);
  long done = (long)finish(thread);
  say("%s [%s] = %s", call, way, done == -1 ? "-1" : done == MUCH ? "all" : done > 0 ? "a part" : "nothing");
  long waiting = 0, got;
  fcntl(from, F_SETFL, O_NONBLOCK);
  while ((got = read(from, some, MUCH)) > 0) waiting += got;
  must(waiting == done);
  close(from), close(to);
}

CASE(a_part_of_a_write) {
  make_pipe(), cut_short("write", "handler in the middle", by_write, 0);
  make_pipe(), cut_short("write", "SA_RESTART in the middle", by_write, SA_RESTART);
  make_pipe(), cut_short("writev", "SA_RESTART in the middle", by_writev, SA_RESTART);
  make_sockets(SOCK_STREAM), cut_short("sendto", "SA_RESTART in the middle", by_send, SA_RESTART);
  make_sockets(SOCK_STREAM), cut_short("write", "socket, SA_RESTART in the middle", by_write, SA_RESTART);
}

/* MSG_WAITALL. */
static void *feed_in_parts(void *argument) {
  for (int i = 0; i < 10; i++) {
    sleep_ms(2);
    must(write(to, much, 100) == 100);
  }
  if (argument) close(to);
  return NULL;
}
CASE(all_of_it) {
  make_sockets(SOCK_STREAM);
  load_begin();
  pthread_t feeder = start(feed_in_parts, NULL);
  tried("recvfrom", "MSG_WAITALL", recv(from, some, 1000, MSG_WAITALL));
  finish(feeder);
  feeder = start(feed_in_parts, (void *)1);
  tried("recvfrom", "MSG_WAITALL, end of file", recv(from, some, 5000, MSG_WAITALL));
  finish(feeder);
  load_end();
  tried("recvfrom", "closed", recv(from, some, 10, 0));
  close(from);
}

static long receive_all(void) { return recv(from, some, 1000, MSG_WAITALL); }
CASE(all_of_it_but_for_a_signal) {
  make_sockets(SOCK_STREAM);
  must(write(to, much, 100) == 100);
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  need(sigaction(SIGUSR1, &action, NULL) == 0);
  handled = 0;
  transfer_now = receive_all;
  pthread_t thread = start(transfer_once, NULL);
  wait_until(is_empty());
  settle();
  pthread_kill(thread, SIGUSR1);
  wait_until(handled == 1);
  say("recvfrom [MSG_WAITALL, SA_RESTART after a part] = %ld", (long)finish(thread));
  close(from), close(to);
}

CASE(all_of_it_in_time) {
  make_sockets(SOCK_STREAM);
  struct timeval time = {.tv_usec = 50000};
  need(setsockopt(from, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
  must(write(to, much, 100) == 100);
  tried("recvfrom", "MSG_WAITALL, 50 ms, a part", recv(from, some, 1000, MSG_WAITALL));
  tried("recvfrom", "MSG_WAITALL, 50 ms, nothing", recv(from, some, 1000, MSG_WAITALL));
  tried("read", "SO_RCVTIMEO", read(from, some, 1000));
  close(from), close(to);
}

/* Nobody at the other end. */
static siginfo_t pipe_info;
static void on_pipe(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  pipe_info = *info;
  handled++;
}
CASE(nobody_reads) {
  struct sigaction action = {.sa_sigaction = on_pipe, .sa_flags = SA_SIGINFO};
  need(sigaction(SIGPIPE, &action, NULL) == 0);
  handled = 0;
  make_pipe();
  close(from);
  tried("write", "no reader", write(to, much, 10));
  say("SIGPIPE %d, code %d", handled, pipe_info.si_code);
  close(to);
  make_sockets(SOCK_STREAM);
  close(from);
  tried("sendto", "no reader", send(to, much, 10, 0));
  tried("sendto", "no reader, MSG_NOSIGNAL", send(to, much, 10, MSG_NOSIGNAL));
  say("SIGPIPE %d", handled);
  close(to);
}
static void *read_a_little(void *argument) {
  settle();
  must(read(from, some, 5000) == 5000);
  settle();
  close(from);
  return argument;
}
CASE(the_reader_leaves) {
  signal(SIGPIPE, SIG_IGN);
  make_pipe();
  pthread_t thread = start(read_a_little, NULL);
  long done = write(to, much, MUCH);
  say("write [reader leaves] = %s", done > 0 && done < MUCH ? "a part" : result(done));
  finish(thread);
  tried("write", "no reader, ignored", write(to, much, MUCH));
  close(to);
}

CASE(without_waiting) {
  make_pipe();
  need(fcntl(from, F_SETFL, O_NONBLOCK) == 0 && fcntl(to, F_SETFL, O_NONBLOCK) == 0);
  tried("read", "O_NONBLOCK", read(from, some, 10));
  tried("write", "O_NONBLOCK, 200,000 bytes", write(to, much, MUCH));
  tried("write", "O_NONBLOCK, full", write(to, much, 10));
  tried("preadv2", "RWF_NOWAIT", preadv2(from, &(struct iovec){some, 10}, 1, -1, RWF_NOWAIT));
  tried("splice", "SPLICE_F_NONBLOCK to a full pipe", splice(from, NULL, to, NULL, 10, SPLICE_F_NONBLOCK));
  close(from), close(to);
  make_sockets(SOCK_DGRAM);
  tried("recvfrom", "MSG_DONTWAIT", recv(from, some, 10, MSG_DONTWAIT));
  must(send(to, much, 100, 0) == 100);
  tried("recvfrom", "datagram, MSG_TRUNC", recv(from, some, 10, MSG_TRUNC));
  tried("sendto", "datagram too long", send(to, much, MUCH * 2, 0));
  close(from), close(to);
}

/* From pipe to pipe and file, in several steps, each waiting for the other side. */
static int other[2];
static void *splice_on(void *argument) {
  long sum = 0, got;
  while ((got = splice(from, NULL, other[1], NULL, 65536, 0)) > 0) sum += got;
  close(other[1]);
  *(long *)argument = sum;
  return NULL;
}
static void *collect(void *argument) {
  long sum = 0, got;
  while ((got = read(other[0], some, 3000)) > 0) sum += got;
  *(long *)argument = sum;
  return NULL;
}
CASE(splice_between_pipes) {
  long moved = 0, collected = 0;
  make_pipe();
  need(pipe(other) == 0);
  load_begin();
  pthread_t mover = start(splice_on, &moved), reader = start(collect, &collected);
  for (int i = 0; i < 5; i++) must(write(to, much, MUCH) == MUCH);
  close(to);
  finish(mover), finish(reader);
  load_end();
  say("moved %ld, collected %ld", moved, collected);
  close(from), close(other[0]);
}
