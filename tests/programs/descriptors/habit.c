//@ engines
/* A thread that has waited in the same read many times, and what happens to the next one. */
#include "kinds.h"
#include <pty.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { WAITS = 40 };

static void set_nonblocking(bool on) {
  int flags = fcntl(fd, F_GETFL);
  need(flags >= 0 && fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK) == 0);
}

static void *feed_slowly(void *unused) {
  (void)unused;
  for (int i = 0; i < WAITS; i++) {
    nanosleep(&(struct timespec){0, 200000}, NULL);
    need(write(peer, &(char){(char)i}, 1) == 1);
  }
  return NULL;
}

static void make_habit(int kind) {
  make(kind);
  pthread_t feeder = start(feed_slowly, NULL);
  for (int i = 0; i < WAITS; i++) {
    char byte = -1;
    must(read(fd, &byte, 1) == 1 && byte == (char)i);
  }
  finish(feeder);
}

CASE(made_nonblocking) {
  for (int kind = 0; kind < KINDS; kind++) {
    make_habit(kind);
    set_nonblocking(true);
    const char *refused = read_one();
    set_nonblocking(false);
    pthread_t feeder = start(feed_once, NULL);
    say("%s: does not block %s, blocks again %s", kinds[kind], refused, read_one());
    finish(feeder), drop();
  }
}

CASE(made_nonblocking_elsewhere) {
  for (int by_child = 0; by_child < 2; by_child++) {
    for (int kind = 0; kind < KINDS; kind++) {
      make_habit(kind);
      int other = dup(fd), status = 0;
      pid_t child = by_child ? fork() : 0;
      need(other >= 0 && child >= 0);
      if (!by_child) need(fcntl(other, F_SETFL, O_NONBLOCK) == 0);
      else if (child == 0) _exit(fcntl(other, F_SETFL, O_NONBLOCK) != 0);
      else need(waitpid(child, &status, 0) == child && status == 0);
      const char *refused = read_one();
      need(fcntl(other, F_SETFL, 0) == 0);
      pthread_t feeder = start(feed_once, NULL);
      say("%s by %s: does not block %s, blocks again %s", kinds[kind], by_child ? "a child" : "a duplicate", refused, read_one());
      finish(feeder), close(other), drop();
    }
  }
}

static void *change_meanwhile(void *unused) {
  (void)unused;
  settle();
  set_nonblocking(true);
  settle();
  need(write(peer, "x", 1) == 1);
  return NULL;
}

CASE(made_nonblocking_meanwhile) {
  for (int kind = 0; kind < KINDS; kind++) {
    make_habit(kind);
    pthread_t changer = start(change_meanwhile, NULL);
    say("%s: %s", kinds[kind], read_one());
    finish(changer), drop();
  }
}

static atomic_int handled;
static void handle(int signal) { handled += signal == SIGUSR1; }

static void *signal_then_feed(void *reader) {
  settle();
  need(pthread_kill(*(pthread_t *)reader, SIGUSR1) == 0);
  settle();
  need(write(peer, "x", 1) == 1);
  return NULL;
}

CASE(signals) {
  for (int restart = 0; restart < 2; restart++) {
    for (int kind = 0; kind < KINDS; kind++) {
      struct sigaction action = {.sa_handler = handle, .sa_flags = restart ? SA_RESTART : 0};
      need(sigaction(SIGUSR1, &action, NULL) == 0);
      make_habit(kind);
      handled = 0;
      pthread_t self = pthread_self(), other = start(signal_then_feed, &self);
      const char *got = read_one();
      int before = handled;
      if (!restart) must(read(fd, &(char){0}, 1) == 1);
      finish(other), drop();
      say("%s, %s: %s, handled %d", kinds[kind], restart ? "SA_RESTART" : "no flag", got, before);
    }
  }
}

static atomic_int calm;
static void *storm(void *reader) {
  while (!calm) {
    need(pthread_kill(*(pthread_t *)reader, SIGUSR1) == 0);
    nanosleep(&(struct timespec){0, 20000}, NULL);
  }
  return NULL;
}

static pthread_t begin_storm(pthread_t *self) {
  struct sigaction action = {.sa_handler = handle};
  need(sigaction(SIGUSR1, &action, NULL) == 0);
  *self = pthread_self();
  calm = 0;
  return start(storm, self);
}

/* A signal does not end a read that has no reason to wait. */
CASE(signals_beside_what_is_there) {
  for (int kind = 0; kind < KINDS; kind++) {
    make_habit(kind);
    pthread_t self, other = begin_storm(&self);
    int wrong = 0;
    for (int i = 0; i < 2000; i++) {
      char byte = 0;
      need(write(peer, "x", 1) == 1);
      while (read(fd, &byte, 1) != 1) wrong++;
    }
    calm = 1;
    finish(other), drop();
    say("%s: %d of 2000 wrong", kinds[kind], wrong);
  }
}

CASE(signals_beside_a_file) {
  char name[] = "/tmp/entresol-habit-XXXXXX", page[4096] = {0};
  int wrong = 0, file = mkstemp(name);
  need(file >= 0 && unlink(name) == 0);
  for (int i = 0; i < 64; i++) need(write(file, page, sizeof page) == sizeof page);
  pthread_t self, other = begin_storm(&self);
  for (int round = 0; round < 20; round++) {
    fsync(file), posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), lseek(file, 0, SEEK_SET);
    for (int i = 0; i < 64; i++) wrong += read(file, page, sizeof page) != sizeof page;
  }
  calm = 1;
  finish(other), close(file);
  say("%d wrong", wrong);
}

CASE(limited_in_time) {
  for (int kind = STREAM; kind < KINDS; kind++) {
    make_habit(kind);
    struct timeval limit = {0, 50000};
    need(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    int64_t before = now_ns(CLOCK_MONOTONIC);
    const char *got = read_one();
    say("%s: %s, not early %d", kinds[kind], got, now_ns(CLOCK_MONOTONIC) - before >= 50000000);
    drop();
  }
}

static void *end_it(void *unused) {
  (void)unused;
  settle();
  close(peer);
  return NULL;
}

CASE(at_the_end) {
  for (int kind = 0; kind <= STREAM; kind++) {
    make_habit(kind);
    pthread_t other = start(end_it, NULL);
    say("%s: %s", kinds[kind], read_one());
    say("%s again: %s", kinds[kind], read_one());
    finish(other), close(fd);
    say("%s closed: %s", kinds[kind], read_one());
  }
}

CASE(another_file) {
  for (int kind = 0; kind < KINDS; kind++) {
    make_habit(kind);
    int other = open("/dev/zero", O_RDONLY);
    static char bytes[1 << 20];
    need(other >= 0 && dup2(other, fd) == fd);
    say("%s, then zeros: %s", kinds[kind], result(read(fd, bytes, sizeof bytes)));
    close(other);
    other = open("/", O_RDONLY);
    need(other >= 0 && dup2(other, fd) == fd);
    say("%s, then a folder: %s", kinds[kind], read_one());
    close(other), drop();
  }
}

/* In the background of a terminal. */
static void read_terminal(int terminal) {
  need(setpgid(0, 0) == 0);
  make_habit(PIPE);
  need(dup2(terminal, fd) == fd);
  char line[8];
  ssize_t got = read(fd, line, sizeof line);
  _exit(got == 3 && memcmp(line, "ab\n", 3) == 0 ? 7 : 8);
}

static void lead_session(int terminal) {
  int status;
  need(setsid() >= 0 && ioctl(terminal, TIOCSCTTY, 0) == 0);
  need(signal(SIGTTOU, SIG_IGN) != SIG_ERR);
  pid_t child = fork();
  if (child == 0) read_terminal(terminal);
  need(waitpid(child, &status, WUNTRACED) == child);
  say("in the background: stopped %d by SIGTTIN %d", WIFSTOPPED(status), WIFSTOPPED(status) && WSTOPSIG(status) == SIGTTIN);
  need(tcsetpgrp(terminal, child) == 0 && kill(child, SIGCONT) == 0);
  need(waitpid(child, &status, 0) == child);
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 9);
}

CASE(a_terminal) {
  int master, terminal, status;
  need(openpty(&master, &terminal, NULL, NULL, NULL) == 0);
  need(write(master, "ab\n", 3) == 3);
  pid_t leader = fork();
  if (leader == 0) lead_session(terminal);
  need(waitpid(leader, &status, 0) == leader);
  say("status %d", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}
