/* What every program of the corpus stands on: cases, results as text, raw system calls.
 *
 * A CASE is a function; the program runs all of them in the order of the text, or the one named by its first
 * argument. A case writes its results by say(), each a line `case: text`. The same lines must come out
 * natively and under Entresol, so a line never holds an address, an id or a duration. must() is for what a
 * program can judge alone (a timeout was early, a byte changed): it says so and makes the end status 1. */
#ifndef CHECK_H
#define CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* musl has no names for errors and signals, but sentences, and so had glibc before 2.32. */
#if !defined __GLIBC__ || (__GLIBC__ == 2 && __GLIBC_MINOR__ < 32)
#define strerrorname_np strerror
#define sigabbrev_np strsignal
#endif

struct check_case {
  const char *name;
  void (*body)(void);
};

#define CASE(n)                                                                                                \
  static void case_##n(void);                                                                                  \
  static const struct check_case entry_##n __attribute__((used, section("check_cases"))) = {#n, case_##n};    \
  static void case_##n(void)

extern const struct check_case __start_check_cases[], __stop_check_cases[];
static const char *check_current = "program";
static atomic_int check_failed;

/* One write per line, so that lines of several threads and of children never mix. */
__attribute__((format(printf, 1, 2), unused)) static void say(const char *format, ...) {
  char line[1024];
  int saved = errno, used = snprintf(line, sizeof line, "%s: ", check_current);
  va_list args;
  va_start(args, format);
  used += vsnprintf(line + used, sizeof line - used - 1, format, args);
  va_end(args);
  if (used > (int)sizeof line - 2) used = sizeof line - 2;
  line[used++] = '\n';
  if (write(1, line, used) != used) abort();
  errno = saved;
}

#define must(condition)                                                                                        \
  do {                                                                                                         \
    if (!(condition)) {                                                                                        \
      atomic_store(&check_failed, 1);                                                                          \
      say("line %d: NOT %s", __LINE__, #condition);                                                            \
    }                                                                                                          \
  } while (0)

/* For the preparation of a case: nothing that follows would mean anything. */
#define need(condition)                                                                                        \
  do {                                                                                                         \
    if (!(condition)) {                                                                                        \
      say("line %d: cannot go on: %s: %s", __LINE__, #condition, strerror(errno));                             \
      _exit(99);                                                                                               \
    }                                                                                                          \
  } while (0)

/* A fork that failed must not become a signal to everybody. */
__attribute__((unused)) static int kill_one(pid_t pid, int signal) {
  need(pid != -1);
  return kill(pid, signal);
}
#define kill(pid, signal) kill_one(pid, signal)

/* An errno as its name. */
__attribute__((unused)) static const char *errname(int error) {
  const char *name = error == 0 ? "ok" : strerrorname_np(error);
  return name ? name : "unknown errno";
}

/* The value of a call that answers -1 and errno: the number, or the errno's name. */
__attribute__((unused)) static const char *result(long value) {
  static _Thread_local char buffers[8][24];
  static _Thread_local unsigned turn;
  if (value == -1) return errname(errno);
  char *buffer = buffers[turn++ % 8];
  snprintf(buffer, sizeof buffers[0], "%ld", value);
  return buffer;
}

__attribute__((unused)) static int64_t now_ns(clockid_t clock) {
  struct timespec now;
  need(clock_gettime(clock, &now) == 0);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

__attribute__((unused)) static struct timespec timespec_of(int64_t ns) {
  return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

__attribute__((unused)) static void sleep_ms(int64_t ms) {
  struct timespec left = timespec_of(ms * 1000000);
  while (nanosleep(&left, &left) == -1 && errno == EINTR) {}
}

/* Long enough for a thread that was just started to reach its wait. Used where nothing shows that it did. */
__attribute__((unused)) static void settle(void) { sleep_ms(100); }

/* Waits until another thread makes it true; gives up loudly. It sleeps, for the waiter may be a real-time thread
 * on the CPU that the other one needs. */
#define wait_until(condition)                                                                                  \
  do {                                                                                                         \
    int64_t limit_ = now_ns(CLOCK_MONOTONIC) + INT64_C(30000000000);                                           \
    for (int round_ = 0; !(condition); round_++) {                                                             \
      need(now_ns(CLOCK_MONOTONIC) < limit_);                                                                  \
      if (round_ < 100) sched_yield();                                                                         \
      else nanosleep(&(struct timespec){0, 200000}, NULL);                                                     \
    }                                                                                                          \
  } while (0)

__attribute__((unused)) static pthread_t start(void *(*body)(void *), void *argument) {
  pthread_t thread;
  int error = pthread_create(&thread, NULL, body, argument);
  errno = error;
  need(error == 0);
  return thread;
}

__attribute__((unused)) static void *finish(pthread_t thread) {
  void *value;
  need(pthread_join(thread, &value) == 0);
  return value;
}

/* The letter in /proc/ID/stat of a thread or process; '?' if there is none. */
__attribute__((unused)) static char state_of(pid_t id) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/%d/stat", id);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  text[length > 0 ? length : 0] = 0;
  char *name_end = strrchr(text, ')');
  return name_end ? name_end[2] : '?';
}

/* How a child ended, in words. */
__attribute__((unused)) static const char *ended(int status) {
  static _Thread_local char buffer[64];
  if (WIFEXITED(status)) snprintf(buffer, sizeof buffer, "status %d", WEXITSTATUS(status));
  else if (WIFSIGNALED(status)) snprintf(buffer, sizeof buffer, "signal %s", sigabbrev_np(WTERMSIG(status)));
  else snprintf(buffer, sizeof buffer, "neither ended nor killed");
  return buffer;
}

/* Runs `body` in a child process and says how that ended. */
__attribute__((unused)) static void in_child(const char *what, void (*body)(void)) {
  pid_t child = fork();
  need(child != -1);
  if (child == 0) {
    body();
    _exit(0);
  }
  int status;
  need(waitpid(child, &status, 0) == child);
  say("%s: %s", what, ended(status));
}

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

int main(int argc, char **argv) {
  const char *only = argc > 1 ? argv[argc - 1] : NULL;
  bool found = only == NULL;
  /* A shell that starts the tests in the background ignores these, and so would the program. */
  signal(SIGHUP, SIG_DFL), signal(SIGINT, SIG_DFL), signal(SIGQUIT, SIG_DFL);
  for (const struct check_case *entry = __start_check_cases; entry < __stop_check_cases; entry++) {
    if (only && strcmp(only, entry->name) != 0) continue;
    found = true;
    check_current = entry->name;
    /* Blocked signals of the case before would go on into this one's threads. */
    sigset_t none;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    entry->body();
  }
  if (!found) {
    fprintf(stderr, "no case %s\n", only);
    return 98;
  }
  return atomic_load(&check_failed);
}

#endif
