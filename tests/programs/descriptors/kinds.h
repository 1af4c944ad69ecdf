/* A descriptor of each kind from which reads wait, and the other end of it. */
#ifndef KINDS_H
#define KINDS_H

#include "../check.h"
#include <fcntl.h>
#include <sys/socket.h>

enum { PIPE, STREAM, DATAGRAM, KINDS };
static const char *const kinds[] = {"pipe", "stream", "datagram"};

static int fd, peer;

static void make(int kind) {
  int two[2];
  if (kind == PIPE) need(pipe(two) == 0);
  else need(socketpair(AF_UNIX, kind == STREAM ? SOCK_STREAM : SOCK_DGRAM, 0, two) == 0);
  fd = two[0], peer = two[1];
}

static void drop(void) { close(fd), close(peer); }

static const char *read_one(void) {
  char byte;
  return result(read(fd, &byte, 1));
}

static void *feed_once(void *unused) {
  (void)unused;
  settle();
  need(write(peer, "x", 1) == 1);
  return NULL;
}

#endif
