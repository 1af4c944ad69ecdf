//@ engines
/* What a wait leaves to others: readers that only look, files that a forked child must not hold open, and readiness that is told once. */
#include "waiters.h"
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { READERS = 12 };

static long look(struct waiter *w) { return recv(w->fd, w->bytes, sizeof w->bytes, MSG_PEEK); }
static long look_or_take(struct waiter *w) {
  return recv(w->fd, w->bytes, sizeof w->bytes, w->number % 2 == 0 ? MSG_PEEK : 0);
}
static long take(struct waiter *w) { return read(w->fd, w->bytes, sizeof w->bytes); }

/* The first reader looks beyond what comes, so it goes on waiting; the second takes it. */
CASE(a_reader_that_looks_further) {
  int two[2], from = 4;
  need(socketpair(AF_UNIX, SOCK_STREAM, 0, two) == 0);
  need(setsockopt(two[0], SOL_SOCKET, SO_PEEK_OFF, &from, sizeof from) == 0);
  waiters[0].fd = waiters[1].fd = two[0];
  begin(2, look_or_take);
  need(write(two[1], "z", 1) == 1);
  finish(waiters[1].thread);
  say("the second took %ld, the first waits: %s", waiters[1].result, atomic_load(&waiters[0].ended) ? "no" : "yes");
  need(shutdown(two[1], SHUT_WR) == 0);
  finish(waiters[0].thread);
  say("the first saw %ld", waiters[0].result);
  close(two[0]), close(two[1]);
}

CASE(all_that_look_see_what_comes) {
  int two[2];
  need(socketpair(AF_UNIX, SOCK_STREAM, 0, two) == 0);
  for (int i = 0; i < READERS; i++) waiters[i].fd = two[0];
  begin(READERS, look);
  need(write(two[1], "abc", 3) == 3);
  join("looked", READERS);
  close(two[0]), close(two[1]);
}

/* Threads read from pipes whose ends are closed meanwhile. A child that is forked then, and runs, keeps none of them open. */
CASE(a_child_holds_no_closed_file) {
  signal(SIGPIPE, SIG_IGN);
  int writers[READERS], runs[2];
  need(pipe(runs) == 0);
  for (int i = 0; i < READERS; i++) {
    int two[2];
    need(pipe(two) == 0);
    waiters[i].fd = two[0], writers[i] = two[1];
  }
  begin(READERS, take);
  for (int i = 0; i < READERS; i++) need(close(waiters[i].fd) == 0);
  pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < READERS; i++) close(writers[i]);
    need(write(runs[1], "", 1) == 1);
    for (;;) pause();
  }
  char byte;
  need(read(runs[0], &byte, 1) == 1);
  for (int i = 0; i < READERS; i++) need(write(writers[i], "a", 1) == 1);
  join("read", READERS);
  int broken = 0;
  for (int i = 0; i < READERS; i++) broken += write(writers[i], "b", 1) < 0 && errno == EPIPE;
  say("nobody reads %d of %d", broken, READERS);
  for (int i = 0; i < READERS; i++) close(writers[i]);
  kill(child, SIGKILL);
  need(waitpid(child, NULL, 0) == child);
}

static long polls_in_vain(struct waiter *w) {
  int vain = 0;
  for (int i = 0; i < 10 && vain == 0; i++) {
    struct pollfd one = {.fd = w->fd, .events = POLLIN};
    vain += poll(&one, 1, 2000) != 1;
  }
  return vain;
}

/* `perf_poll` forgets what it has told. */
CASE(a_counter_tells_once) {
  pid_t child = fork();
  if (child == 0) {
    for (;;) {}
  }
  struct perf_event_attr wanted = {.type = PERF_TYPE_SOFTWARE,
                                   .size = sizeof wanted,
                                   .config = PERF_COUNT_SW_CPU_CLOCK,
                                   .sample_period = 5000000,
                                   .sample_type = PERF_SAMPLE_IP,
                                   .wakeup_events = 1,
                                   .exclude_kernel = 1};
  int fd = syscall(SYS_perf_event_open, &wanted, child, -1, -1, 0);
  if (fd >= 0 && mmap(NULL, 9 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED) {
    waiters[0].fd = fd;
    begin(1, polls_in_vain);
    finish(waiters[0].thread);
    say("polls in vain: %ld", waiters[0].result);
  } else {
    say("no counter");
  }
  close(fd);
  kill(child, SIGKILL);
  need(waitpid(child, NULL, 0) == child);
}
