//@ engines
/* Reads from and writes to descriptors that have been found non-blocking before, and what changes the flag meanwhile. */
#include "kinds.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

/* A descriptor from which several reads have ended with EAGAIN. */
static void make_known(int kind) {
  make(kind);
  need(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
  for (int i = 0; i < 3; i++) {
    char byte;
    errno = 0;
    must(read(fd, &byte, 1) == -1 && errno == EAGAIN);
  }
}

static volatile sig_atomic_t counted;
static void count(int signal) { (void)signal, counted++; }

/* Shares the reader's CPU. */
static void *spin(void *end) {
  while (!atomic_load((atomic_int *)end)) continue;
  return NULL;
}

/* What a read returns that waits, if it does, beside a thread that computes. */
static void read_beside(const char *name) {
  atomic_int end = 0;
  pthread_t spinner = start(spin, &end), feeder = start(feed_once, NULL);
  printf("%s: %s\n", name, read_one());
  finish(feeder);
  end = 1;
  finish(spinner);
}

CASE(data_and_end) {
  for (int kind = 0; kind < KINDS; kind++) {
    make_known(kind);
    need(write(peer, "x", 1) == 1);
    printf("%s: %s", kinds[kind], read_one());
    printf(", then %s", read_one());
    close(peer);
    printf(", closed: %s\n", kind == DATAGRAM ? "-" : read_one());
    close(fd);
  }
}

CASE(cleared_here) {
  for (int kind = 0; kind < KINDS; kind++) {
    make_known(kind);
    need(fcntl(fd, F_SETFL, 0) == 0);
    read_beside(kinds[kind]);
    drop();
    make_known(kind);
    need(ioctl(fd, FIONBIO, &(int){0}) == 0);
    read_beside("by ioctl");
    drop();
  }
}

CASE(cleared_by_a_duplicate) {
  for (int kind = 0; kind < KINDS; kind++) {
    make_known(kind);
    int other = dup(fd);
    need(fcntl(other, F_SETFL, 0) == 0);
    read_beside(kinds[kind]);
    close(other);
    drop();
  }
}

/* Clears O_NONBLOCK in another process. */
static void clear_elsewhere(void) {
  pid_t child = fork();
  need(child >= 0);
  if (child == 0) _exit(fcntl(fd, F_SETFL, 0) != 0);
  int status;
  must(waitpid(child, &status, 0) == child && status == 0);
}

CASE(cleared_by_another_process) {
  for (int kind = 0; kind < KINDS; kind++) {
    make_known(kind);
    clear_elsewhere();
    read_beside(kinds[kind]);
    read_beside("again");
    drop();
  }
}

/* The number is another file's, which waits. */
CASE(another_file) {
  for (int kind = 0; kind < KINDS; kind++) {
    make_known(kind);
    int known = fd, old = peer;
    int two[2];
    need(socketpair(AF_UNIX, SOCK_STREAM, 0, two) == 0);
    need(dup2(two[0], known) == known);
    close(two[0]), close(old);
    peer = two[1];
    read_beside(kinds[kind]);
    drop();
  }
}

static char block[1 << 20];

/* Takes what is written to the peer, slowly, until all of a block has come. */
static void *drain(void *unused) {
  (void)unused;
  static char bytes[1 << 17];
  size_t got = 0;
  settle();
  while (got < sizeof block) {
    ssize_t n = read(peer, bytes, sizeof bytes);
    need(n > 0);
    got += n;
  }
  return NULL;
}

/* A write that must wait for room, beside a thread that computes. */
static void write_all(const char *name) {
  atomic_int end = 0;
  pthread_t spinner = start(spin, &end), taker = start(drain, NULL);
  printf("%s: %s\n", name, write(fd, block, sizeof block) == sizeof block ? "all" : "a part");
  finish(taker);
  end = 1;
  finish(spinner);
}

CASE(written) {
  make_known(STREAM);
  ssize_t part = write(fd, block, sizeof block);
  printf("a part: %d", part > 0 && part < (ssize_t)sizeof block);
  printf(", then %s", result(write(fd, block, sizeof block)));
  printf(", sent: %s\n", result(send(fd, block, sizeof block, 0)));
  drop();

  make_known(STREAM);
  need(fcntl(fd, F_SETFL, 0) == 0);
  write_all("cleared here");
  drop();

  make_known(STREAM);
  clear_elsewhere();
  write_all("by another process");
  write_all("again");
  drop();

  make_known(STREAM);
  close(peer);
  need(signal(SIGPIPE, count) != SIG_ERR);
  printf("nobody reads: %s", result(write(fd, "x", 1)));
  printf(", %d signal\n", counted);
  close(fd);
}

static void *feed_the_rest(void *unused) {
  (void)unused;
  settle(), settle();
  need(write(peer, "4567", 4) == 4);
  return NULL;
}

/* The flag has been cleared elsewhere, and the call says itself how much it waits for. */
CASE(flags_of_a_call) {
  make_known(STREAM);
  clear_elsewhere();
  ssize_t part = send(fd, block, sizeof block, MSG_DONTWAIT);
  printf("a part: %d\n", part > 0 && part < (ssize_t)sizeof block);
  drop();

  make_known(STREAM);
  clear_elsewhere();
  need(write(peer, "0123", 4) == 4);
  atomic_int end = 0;
  char bytes[8];
  pthread_t spinner = start(spin, &end), feeder = start(feed_the_rest, NULL);
  printf("all: %s\n", result(recv(fd, bytes, sizeof bytes, MSG_WAITALL)));
  finish(feeder);
  end = 1;
  finish(spinner);
  drop();
}

CASE(accepted) {
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  need(bind(listener, (void *)&address, size) == 0 && listen(listener, 5) == 0);
  need(getsockname(listener, (void *)&address, &size) == 0);
  for (int i = 0; i < 3; i++) {
    printf("nobody: %s\n", result(accept4(listener, NULL, NULL, SOCK_NONBLOCK)));
    peer = socket(AF_INET, SOCK_STREAM, 0);
    need(connect(peer, (void *)&address, size) == 0);
    struct pollfd ready = {.fd = listener, .events = POLLIN};
    must(poll(&ready, 1, -1) == 1);
    fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    must(fd >= 0);
    printf("nothing: %s\n", read_one());
    printf("nothing: %s\n", read_one());
    must(write(fd, "answer", 6) == 6);
    char bytes[6];
    must(recv(peer, bytes, 6, MSG_WAITALL) == 6 && !memcmp(bytes, "answer", 6));
    must(write(peer, "x", 1) == 1);
    ready.fd = fd;
    must(poll(&ready, 1, -1) == 1);
    printf("something: %s\n", read_one());
    need(fcntl(fd, F_SETFL, 0) == 0);
    read_beside("waits");
    shutdown(peer, SHUT_RDWR);
    printf("end: %s\n", read_one());
    drop();
  }
  close(listener);
}
