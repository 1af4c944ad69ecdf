/* Calls that wait in the host: pipes, sockets, files, poll and its kin. Every byte is known to its reader. */
#ifndef WAITS_H
#define WAITS_H

#include "torture.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

static int post[2];

static void init_waits(void) {
  struct timeval patience = {0, 2000};
  if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, post) != 0 ||
      setsockopt(post[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0)
    broken("no sockets: %d", errno);
}

static void lay_out(uint8_t *bytes, size_t size, uint64_t key) {
  for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)(key + i * 7 + (i >> 8));
}

static size_t differences(const uint8_t *bytes, size_t size, uint64_t key, size_t at) {
  size_t wrong = 0;
  for (size_t i = 0; i < size; i++) wrong += bytes[i] != (uint8_t)(key + (at + i) * 7 + ((at + i) >> 8));
  return wrong;
}

/* Writes all of it, in parts of a random size; a part that waits for room is whole all the same, or cut by a handler. */
static bool write_all(int fd, const uint8_t *bytes, size_t size) {
  for (size_t done = 0; done < size;) {
    size_t part = dice(3) == 0 ? size - done : 1 + dice(size - done);
    ssize_t written = write(fd, bytes + done, part);
    if (written < 0 && errno == EINTR) continue;
    check(written > 0 && (size_t)written <= part, "write of %zu answered %zd, %d", part, written, errno);
    if (written <= 0) return false;
    done += (size_t)written;
  }
  return true;
}

/* Reads to the end and compares: the size is as it should be, and so is every byte. */
static void read_all(int fd, size_t size, uint64_t key) {
  uint8_t bytes[5000];
  size_t done = 0;
  for (;;) {
    ssize_t got = read(fd, bytes, 1 + dice(sizeof bytes));
    if (got < 0 && errno == EINTR) continue;
    check(got >= 0, "read answered %d", errno);
    if (got <= 0) break;
    size_t wrong = differences(bytes, (size_t)got, key, done);
    check(wrong == 0, "%zu of %zd bytes read at %zu are others", wrong, got, done);
    done += (size_t)got;
  }
  check(done == size, "%zu bytes arrived of %zu", done, size);
}

struct parcel {
  uint64_t key;
  size_t size;
  int fd;
};

static void *write_parcel(void *argument) {
  const struct parcel *parcel = argument;
  struct worker self = {.index = 1001, .tid = gettid(), .random = parcel->key | 1, .activity = "writer"};
  me = &self;
  uint8_t *bytes = malloc(parcel->size);
  if (bytes) {
    lay_out(bytes, parcel->size, parcel->key);
    write_all(parcel->fd, bytes, parcel->size);
    free(bytes);
  }
  close(parcel->fd);
  me = NULL;
  return bytes;
}

/* A pipe or a stream between two threads, mostly larger than what it holds. */
static void send_parcel(void) {
  int ends[2];
  int answer = dice(2) ? pipe2(ends, O_CLOEXEC) : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends);
  check(answer == 0, "no pipe: %d", errno);
  if (answer != 0) return;
  struct parcel parcel = {next_random(&me->random), 1 + dice(dice(4) ? 3000 : 200000), ends[1]};
  pthread_t writer;
  int error = pthread_create(&writer, NULL, write_parcel, &parcel);
  check(error == 0 || error == EAGAIN, "pthread_create answered %d", error);
  if (error != 0) {
    close(ends[1]);
  } else {
    read_all(ends[0], parcel.size, parcel.key);
    void *written;
    check(pthread_join(writer, &written) == 0 && written, "the writer had no memory");
  }
  close(ends[0]);
}

struct letter {
  uint64_t key;
  uint32_t size;
  uint8_t bytes[600];
};

/* Letters from anybody to anybody. */
static void exchange_letters(void) {
  struct letter letter;
  if (dice(2)) {
    letter.key = next_random(&me->random);
    letter.size = 1 + (uint32_t)dice(sizeof letter.bytes);
    lay_out(letter.bytes, letter.size, letter.key);
    size_t whole = offsetof(struct letter, bytes) + letter.size;
    ssize_t sent = send(post[1], &letter, whole, MSG_DONTWAIT);
    check(sent == (ssize_t)whole || (sent < 0 && errno == EAGAIN), "send answered %zd, %d", sent, errno);
    return;
  }
  ssize_t got = recv(post[0], &letter, sizeof letter, 0);
  check(got > 0 || errno == EAGAIN || errno == EINTR, "recv answered %zd, %d", got, errno);
  if (got <= 0) return;
  size_t head = offsetof(struct letter, bytes);
  check((size_t)got > head && (size_t)got == head + letter.size, "a letter of %zd bytes", got);
  if ((size_t)got == head + letter.size)
    check(differences(letter.bytes, letter.size, letter.key, 0) == 0, "a letter was changed");
}

/* Nothing comes, so the time must be over. */
static void wait_for_nothing(void) {
  int fd = eventfd(0, EFD_CLOEXEC), ms = (int)dice(3), answer;
  struct pollfd one = {fd, POLLIN, 0};
  int64_t before = monotonic_ns();
  switch (dice(4)) {
  case 0: answer = poll(&one, 1, ms); break;
  case 1: answer = ppoll(&one, 1, &(struct timespec){0, ms * 1000000}, NULL); break;
  case 2: {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    answer = select(fd + 1, &set, NULL, NULL, &(struct timeval){0, ms * 1000});
    break;
  }
  default: {
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    answer = epoll_wait(epoll, &event, 1, ms);
    int error = errno;
    close(epoll);
    errno = error;
  }
  }
  check(answer == 0 || (answer < 0 && errno == EINTR), "a wait for nothing answered %d, %d", answer, errno);
  int64_t waited = monotonic_ns() - before;
  check(answer != 0 || waited >= ms * INT64_C(1000000), "waited %lld ns of %d ms", (long long)waited, ms);
  close(fd);
}

static void wait_for_timerfd(void) {
  int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  long span = 1 + (long)dice(400000);
  struct itimerspec time = {{0, 0}, {0, span}};
  uint64_t expiries = 0;
  int64_t before = monotonic_ns();
  check(timerfd_settime(fd, 0, &time, NULL) == 0, "timerfd_settime answered %d", errno);
  ssize_t got;
  while ((got = read(fd, &expiries, sizeof expiries)) < 0 && errno == EINTR) {}
  int64_t waited = monotonic_ns() - before;
  check(got == 8 && expiries == 1, "a timer's descriptor answered %zd and %llu", got, (unsigned long long)expiries);
  check(waited >= span, "a timer's descriptor waited %lld ns of %ld", (long long)waited, span);
  close(fd);
}

/* A file without a name. */
static void use_file(void) {
  char name[] = "/tmp/torture-XXXXXX";
  int fd = mkostemp(name, O_CLOEXEC);
  check(fd >= 0, "no file: %d", errno);
  if (fd < 0) return;
  check(unlink(name) == 0, "unlink answered %d", errno);
  uint8_t bytes[4096];
  uint64_t key = next_random(&me->random);
  size_t size = 1 + dice(sizeof bytes);
  off_t at = (off_t)dice(100000);
  lay_out(bytes, size, key);
  check(pwrite(fd, bytes, size, at) == (ssize_t)size, "pwrite answered %d", errno);
  memset(bytes, 0, size);
  check(pread(fd, bytes, sizeof bytes, at) == (ssize_t)size, "pread answered %d", errno);
  check(differences(bytes, size, key, 0) == 0, "a file was changed");
  check(lseek(fd, 0, SEEK_END) == at + (off_t)size, "the file has another size");
  close(fd);
}

#endif
