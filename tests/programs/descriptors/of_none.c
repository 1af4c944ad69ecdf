/* Polling no descriptors at an address that is none: the wait comes first, and then the error, whatever has ended it. */
#include "../check.h"
#include <poll.h>
#include <sys/time.h>

static volatile sig_atomic_t handled;
static void note(int signal) { handled += signal > 0; }

enum { LONG_NS = 30000000 };

static void say_waited(const char *what, long answer, int64_t since) {
  int error = errno;
  bool waited = now_ns(CLOCK_MONOTONIC) - since >= LONG_NS;
  errno = error;
  say("%s: %s, waited %d, handled %d", what, result(answer), waited, handled);
}

static const long addresses[] = {0, 8, -1, 1L << 47, (1L << 47) - 4096};
static const char *names[] = {"null", "page zero", "-1", "beyond", "the last"};

CASE(time_limit) {
  for (int i = 0; i < COUNT(addresses); i++) {
    struct timespec limit = {0, LONG_NS}, none = {0, 0};
    int64_t begin = now_ns(CLOCK_MONOTONIC);
    say_waited(names[i], syscall(SYS_ppoll, addresses[i], 0, &limit, NULL, 8), begin);
    say("left %ld", limit.tv_nsec);
    begin = now_ns(CLOCK_MONOTONIC);
    say_waited(names[i], syscall(SYS_poll, addresses[i], 0, LONG_NS / 1000000), begin);
    say("at once %s", result(syscall(SYS_ppoll, addresses[i], 0, &none, NULL, 8)));
    say("at once %s", result(syscall(SYS_poll, addresses[i], 0, 0)));
  }
}

CASE(signal_with_handler) {
  struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
  need(sigaction(SIGALRM, &action, NULL) == 0);
  for (int i = 0; i < COUNT(addresses); i++) {
    struct itimerval soon = {.it_value.tv_usec = LONG_NS / 1000};
    int64_t begin = now_ns(CLOCK_MONOTONIC);
    handled = 0;
    need(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    say_waited(names[i], syscall(SYS_ppoll, addresses[i], 0, NULL, NULL, 8), begin);
    begin = now_ns(CLOCK_MONOTONIC);
    handled = 0;
    need(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    say_waited(names[i], syscall(SYS_poll, addresses[i], 0, -1), begin);
  }
}
