//@ alone
//@ cpus: default
//@ seconds: 120
/* More signals from another process than anybody handles at leisure: what was accepted arrives, once and in order,
 * and what was not was refused (EAGAIN). */
#include "room.h"

#define NUMBERS 8

static struct shared {
  atomic_long sent, got, out_of_order, refused;
  atomic_bool done;
  long last[NUMBERS];
} *shared;

static void note(const siginfo_t *info) {
  int number = info->si_signo - SIGRTMIN;
  long value = (long)(intptr_t)info->si_value.sival_ptr;
  if (value <= shared->last[number] || info->si_code != SI_QUEUE) shared->out_of_order++;
  shared->last[number] = value;
  shared->got++;
}
static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  note(info);
}

/* Sends for so long, but no more than `most` ahead of the receiver. */
static void sender(pid_t to, int numbers, int64_t span_ns, long most) {
  int64_t end = now_ns(CLOCK_MONOTONIC) + span_ns;
  for (long value = 1; now_ns(CLOCK_MONOTONIC) < end;) {
    if (shared->sent - shared->got >= most) continue;
    union sigval word = {.sival_ptr = (void *)(intptr_t)value};
    if (sigqueue(to, SIGRTMIN + (int)(value % numbers), word) == 0) {
      value++;
      shared->sent++;
    } else {
      if (errno != EAGAIN) say("refused by %s", errname(errno));
      shared->refused++;
    }
  }
  shared->done = true;
}

static void storm(const char *what, int numbers, bool wait, int64_t span_ns, long most) {
  leave_room();
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  need(shared != MAP_FAILED);
  sigset_t set, old;
  sigemptyset(&set);
  for (int i = 0; i < numbers; i++) sigaddset(&set, SIGRTMIN + i);
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART, .sa_mask = set};
  for (int i = 0; i < numbers; i++) need(sigaction(SIGRTMIN + i, &action, NULL) == 0);
  if (wait) need(sigprocmask(SIG_BLOCK, &set, &old) == 0);
  pid_t receiver = getpid(), child = fork();
  need(child != -1);
  if (child == 0) {
    sender(receiver, numbers, span_ns, most);
    _exit(0);
  }
  while (!shared->done || shared->got != shared->sent) {
    siginfo_t info;
    struct timespec pause = {0, 5000000};
    if (!wait) nanosleep(&pause, NULL);
    else if (sigtimedwait(&set, &info, &pause) > 0) note(&info);
  }
  need(waitpid(child, NULL, 0) == child);
  must(shared->got > 1000);
  say("%s: all that was accepted arrived, %ld out of order", what, shared->out_of_order);
  if (wait) need(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
  munmap(shared, sizeof *shared);
}

CASE(handlers) { storm("one number", 1, false, INT64_C(1000000000), LONG_MAX); }
/* The host's own queue is slow where many numbers are mixed in it. */
CASE(numbers) { storm("eight numbers", NUMBERS, false, INT64_C(500000000), 500); }
CASE(waits) { storm("sigtimedwait", 1, true, INT64_C(500000000), LONG_MAX); }

/* A steady storm: so many a second, each at its time. STORM_RATE and STORM_SECONDS make it another one, told of on the error
 * stream: what the sender reached, and how many the host refused for want of room. */
static void pace(pid_t to, long rate, int64_t span_ns) {
  int64_t begin = now_ns(CLOCK_MONOTONIC), now = begin;
  for (long value = 1; now - begin < span_ns;) {
    now = now_ns(CLOCK_MONOTONIC);
    if ((now - begin) / 1000 * rate / 1000000 < shared->sent + shared->refused) continue;
    union sigval word = {.sival_ptr = (void *)(intptr_t)value};
    if (sigqueue(to, SIGRTMIN, word) == 0) {
      value++;
      shared->sent++;
    } else {
      shared->refused++;
    }
  }
  shared->done = true;
}
CASE(steady) {
  const char *rate = getenv("STORM_RATE"), *seconds = getenv("STORM_SECONDS");
  int64_t span_ns = seconds ? atol(seconds) * INT64_C(1000000000) : INT64_C(300000000);
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  need(shared != MAP_FAILED);
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
  need(sigaction(SIGRTMIN, &action, NULL) == 0);
  pid_t receiver = getpid(), child = fork();
  need(child != -1);
  if (child == 0) {
    pace(receiver, rate ? atol(rate) : 100000, span_ns);
    _exit(0);
  }
  while (!shared->done || shared->got != shared->sent) nanosleep(&(struct timespec){0, 5000000}, NULL);
  need(waitpid(child, NULL, 0) == child);
  must(shared->got > 1000);
  say("all that was accepted arrived, %ld out of order", shared->out_of_order);
  if (seconds)
    fprintf(stderr, "%ld accepted (%.0f a second), %ld refused, %ld arrived\n", shared->sent,
            (double)shared->sent / ((double)span_ns / 1e9), shared->refused, shared->got);
  munmap(shared, sizeof *shared);
}
