/* Reads that get less than they ask for, and reads that must not. */
#include "../check.h"
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { SIZE = 4 << 20, ROUNDS = 20 };
static char bytes[SIZE];

static void *spin(void *stop) {
  while (!*(atomic_bool *)stop) {}
  return NULL;
}

/* Two threads that compute, so that ticks come. */
#define beside_spinners(body)                                                                                  \
  do {                                                                                                         \
    atomic_bool stop_ = false;                                                                                 \
    pthread_t spinners_[2] = {start(spin, &stop_), start(spin, &stop_)};                                       \
    body;                                                                                                      \
    stop_ = true;                                                                                              \
    finish(spinners_[0]), finish(spinners_[1]);                                                                \
  } while (0)

static int a_file(void) {
  char path[] = "/var/tmp/entresol-short-XXXXXX";
  int fd = mkstemp(path);
  need(fd >= 0 && unlink(path) == 0);
  for (int i = 0; i < SIZE; i++) bytes[i] = (char)(i * 7 + i / 4096);
  need(write(fd, bytes, SIZE) == SIZE && fsync(fd) == 0);
  return fd;
}

static bool is_whole(void) {
  for (int i = 0; i < SIZE; i++)
    if (bytes[i] != (char)(i * 7 + i / 4096)) return false;
  return true;
}

/* The host has the first half in memory, and must fetch the second. */
static void half_cached(int fd) {
  need(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
  need(pread(fd, bytes, SIZE / 2, 0) == SIZE / 2);
  need(posix_fadvise(fd, SIZE / 2, 0, POSIX_FADV_DONTNEED) == 0);
  need(lseek(fd, 0, SEEK_SET) == 0);
  memset(bytes, 0, SIZE);
}

static ssize_t by_read(int fd) { return read(fd, bytes, SIZE); }
static ssize_t by_pread(int fd) { return pread(fd, bytes, SIZE, 0); }
static ssize_t by_readv(int fd) {
  struct iovec parts[] = {{bytes, 1000}, {bytes + 1000, SIZE / 2}, {bytes + 1000 + SIZE / 2, SIZE / 2 - 1000}};
  return readv(fd, parts, 3);
}
static const struct {
  const char *name;
  ssize_t (*read)(int);
} forms[] = {{"read", by_read}, {"pread", by_pread}, {"readv", by_readv}};

CASE(half_in_memory) {
  int fd = a_file();
  for (int form = 0; form < COUNT(forms); form++) {
    int whole = 0;
    for (int i = 0; i < ROUNDS; i++) {
      half_cached(fd);
      whole += forms[form].read(fd) == SIZE && is_whole();
    }
    say("%s: %d of %d whole", forms[form].name, whole, ROUNDS);
  }
  close(fd);
}

CASE(at_the_end_of_a_file) {
  int fd = a_file();
  need(ftruncate(fd, 10000) == 0);
  for (int form = 0; form < COUNT(forms); form++) {
    need(lseek(fd, 0, SEEK_SET) == 0);
    say("%s: %s", forms[form].name, result(forms[form].read(fd)));
    say("%s after the end: %s", forms[form].name, result(forms[form].read(fd)));
  }
  /* It has grown meanwhile. */
  need(pwrite(fd, "more", 4, 10000) == 4);
  say("more: %s", result(read(fd, bytes, SIZE)));
  close(fd);
}

static void endless(const char *path) {
  int fd = open(path, O_RDONLY), whole[COUNT(forms)] = {0};
  need(fd >= 0);
  beside_spinners(for (int i = 0; i < ROUNDS; i++) for (int form = 0; form < COUNT(forms); form++) whole[form] +=
                  forms[form].read(fd) == SIZE);
  for (int form = 0; form < COUNT(forms); form++)
    say("%s of %s: %d of %d whole", forms[form].name, path, whole[form], ROUNDS);
  close(fd);
}

CASE(zeros) { endless("/dev/zero"); }
CASE(random_bytes) { endless("/dev/urandom"); }

CASE(getrandom_gets_all) {
  int whole = 0;
  beside_spinners(for (int i = 0; i < ROUNDS; i++) whole += getrandom(bytes, SIZE, 0) == SIZE);
  say("%d of %d whole", whole, ROUNDS);
}

/* What is short there is the answer, and what comes next is for the next read. */
CASE(streams) {
  int two[2];
  need(pipe2(two, O_DIRECT) == 0);
  need(write(two[1], "ab", 2) == 2 && write(two[1], "cde", 3) == 3);
  const char *first = result(read(two[0], bytes, 100));
  say("packets of a pipe: %s, %s", first, result(read(two[0], bytes, 100)));
  close(two[0]), close(two[1]);
  need(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, two) == 0);
  need(write(two[1], "ab", 2) == 2 && write(two[1], "cde", 3) == 3);
  first = result(read(two[0], bytes, 100));
  say("packets of a socket: %s, %s", first, result(readv(two[0], &(struct iovec){bytes, 100}, 1)));
  close(two[0]), close(two[1]);
  int counter = eventfd(2, EFD_SEMAPHORE);
  first = result(read(counter, bytes, 100));
  say("counter: %s, %s", first, result(read(counter, bytes, 100)));
  close(counter);
}

/* The number of a file comes to stand for a stream, in every way in which it can. */
CASE(a_number_that_is_used_again) {
  for (int way = 0; way < 4; way++) {
    int file = a_file(), two[2];
    need(pipe(two) == 0 && ftruncate(file, 10) == 0 && lseek(file, 0, SEEK_SET) == 0);
    const char *of_file = result(read(file, bytes, 100));
    if (way == 0) need(dup2(two[0], file) == file);
    if (way == 1) need(dup3(two[0], file, O_CLOEXEC) == file);
    if (way == 2) need(close(file) == 0 && fcntl(two[0], F_DUPFD, file) == file);
    if (way == 3) need(close_range(file, file, 0) == 0 && dup(two[0]) == file);
    need(write(two[1], "abc", 3) == 3);
    say("way %d: of the file %s, of the pipe %s", way, of_file, result(read(file, bytes, 100)));
    close(file), close(two[0]), close(two[1]);
  }
}
