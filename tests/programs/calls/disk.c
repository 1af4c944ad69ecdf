/* Calls that wait for a disk: no signal ends them, copies are whole, and each reader gets what it asked for. */
#include "tried.h"
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>

enum { BLOCK = 4096, BLOCKS = 2048, READERS = 16 };

static int file_of_blocks(void) {
  char name[] = "disk-XXXXXX";
  int file = mkstemp(name);
  need(file >= 0 && unlink(name) == 0);
  uint32_t block[BLOCK / sizeof(uint32_t)];
  for (uint32_t i = 0; i < BLOCKS; i++) {
    for (size_t j = 0; j < sizeof block / sizeof *block; j++) block[j] = i;
    need(write(file, block, BLOCK) == BLOCK);
  }
  return file;
}

static atomic_int ticks;
static void on_tick(int signal) { atomic_fetch_add(&ticks, signal != 0); }

static int file;
static char buffer[BLOCK];
static struct iovec whole = {buffer, BLOCK};
static long by_pread(void) { return pread(file, buffer, BLOCK, 0); }
static long by_pwrite(void) { return pwrite(file, buffer, BLOCK, 0); }
static long by_preadv(void) { return preadv(file, &whole, 1, 0); }
static long by_pwritev(void) { return pwritev(file, &whole, 1, 0); }
static long by_preadv2(void) { return preadv2(file, &whole, 1, 0, 0); }
static long by_fsync(void) { return fsync(file); }
static long by_fdatasync(void) { return fdatasync(file); }
static long by_msync(void) {
  static char *mapped;
  if (!mapped) mapped = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  need(mapped != MAP_FAILED);
  mapped[0]++;
  return msync(mapped, BLOCK, MS_SYNC);
}

/* A handler without SA_RESTART, and others who want the CPUs. */
CASE(no_signal_ends_them) {
  static const struct {
    const char *name;
    long (*call)(void);
    long whole;
  } calls[] = {
      {"pread", by_pread, BLOCK},   {"pwrite", by_pwrite, BLOCK}, {"preadv", by_preadv, BLOCK},
      {"pwritev", by_pwritev, BLOCK}, {"preadv2", by_preadv2, BLOCK}, {"fsync", by_fsync, 0},
      {"fdatasync", by_fdatasync, 0}, {"msync", by_msync, 0},
  };
  file = file_of_blocks();
  load_begin();
  struct sigaction action = {.sa_handler = on_tick};
  need(sigaction(SIGALRM, &action, NULL) == 0);
  struct itimerval often = {{0, 300}, {0, 300}}, never = {0};
  need(setitimer(ITIMER_REAL, &often, NULL) == 0);
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    int odd = 0;
    atomic_store(&ticks, 0);
    while (atomic_load(&ticks) < 200) odd += calls[i].call() != calls[i].whole;
    say("%s: %d odd", calls[i].name, odd);
  }
  need(setitimer(ITIMER_REAL, &never, NULL) == 0);
  load_end();
  close(file);
}

/* What a tick or a kick cuts short goes on. */
CASE(copies_are_whole) {
  file = file_of_blocks();
  int copy = memfd_create("copy", 0), odd = 0;
  need(copy >= 0);
  load_begin();
  for (int i = 0; i < 100; i++) {
    loff_t in = 0, out = 0;
    odd += copy_file_range(file, &in, copy, &out, BLOCK * BLOCKS, 0) != BLOCK * BLOCKS || in != BLOCK * BLOCKS;
    off_t from = BLOCK;
    need(lseek(copy, 0, SEEK_SET) == 0);
    odd += sendfile(copy, file, &from, BLOCK * BLOCKS) != BLOCK * (BLOCKS - 1) || from != BLOCK * BLOCKS;
  }
  load_end();
  say("%d odd", odd);
  close(copy), close(file);
}

static void *read_at_random(void *seed) {
  uint32_t at = (uint32_t)(uintptr_t)seed, block[BLOCK / sizeof(uint32_t)];
  long odd = 0;
  for (int i = 0; i < 400; i++) {
    at = at * 1664525 + 1013904223;
    uint32_t number = at >> 8 & (BLOCKS - 1);
    /* The next reader of this block waits for the disk again. */
    if (i % 2) posix_fadvise(file, number * BLOCK, BLOCK, POSIX_FADV_DONTNEED);
    odd += pread(file, block, BLOCK, number * BLOCK) != BLOCK || block[0] != number || block[BLOCK / 4 - 1] != number;
  }
  return (void *)odd;
}

CASE(by_many_at_once) {
  file = file_of_blocks();
  need(fsync(file) == 0 && posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0);
  pthread_t readers[READERS];
  long odd = 0;
  for (int i = 0; i < READERS; i++) readers[i] = start(read_at_random, (void *)(uintptr_t)(i + 1));
  for (int i = 0; i < READERS; i++) odd += (long)finish(readers[i]);
  say("%ld odd", odd);
  close(file);
}

/* A file to a non-blocking socket: as much as there is room for, and EAGAIN without any. */
CASE(to_a_socket_that_does_not_wait) {
  file = file_of_blocks();
  int ends[2];
  need(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  static char got[BLOCK * BLOCKS];
  long sent = 0, received = 0, refused = 0;
  load_begin();
  off_t from = 0;
  while (received < BLOCK * BLOCKS) {
    long part = sendfile(ends[0], file, &from, BLOCK * BLOCKS - sent);
    need(part >= 0 || errno == EAGAIN);
    if (part > 0) sent += part;
    refused += part < 0;
    long read_part = read(ends[1], got + received, BLOCK * BLOCKS - received);
    if (read_part > 0) received += read_part;
  }
  load_end();
  long odd = 0;
  for (uint32_t i = 0; i < BLOCKS; i++) odd += memcmp(got + i * BLOCK, &i, sizeof i) != 0;
  must(from == sent && sent == BLOCK * BLOCKS);
  say("%ld odd", odd);
  close(file), close(ends[0]), close(ends[1]);
}
