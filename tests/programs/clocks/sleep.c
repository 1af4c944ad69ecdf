/* Sleeping: never too short, and what interrupts it. */
#include "../check.h"

static const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_TAI};

CASE(nanosleep_is_never_early) {
  static const int64_t times[] = {0, 1, 1000, 50000, 999999, 20000000};
  for (int i = 0; i < COUNT(times); i++) {
    struct timespec time = timespec_of(times[i]), left = {77, 77};
    int64_t before = now_ns(CLOCK_MONOTONIC);
    say("%ld ns: %s", (long)times[i], result(nanosleep(&time, &left)));
    must(now_ns(CLOCK_MONOTONIC) - before >= times[i]);
    must(left.tv_sec == 77 && left.tv_nsec == 77);
  }
}

CASE(bad_arguments) {
  static const struct timespec bad[] = {{0, -1}, {0, 1000000000}, {-1, 0}, {-1, 999999999}, {0, LONG_MAX}, {LONG_MIN, 0}};
  for (int i = 0; i < COUNT(bad); i++) {
    say("nanosleep %d: %s", i, result(nanosleep(&bad[i], NULL)));
    say("relative %d: %s", i, errname(clock_nanosleep(CLOCK_MONOTONIC, 0, &bad[i], NULL)));
    say("absolute %d: %s", i, errname(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &bad[i], NULL)));
  }
  say("bad place %s", result(syscall(SYS_nanosleep, (void *)8, NULL)));
  say("nothing %s", result(syscall(SYS_nanosleep, NULL, NULL)));
  struct timespec one = {0, 1};
  say("unused place is not touched %s", result(syscall(SYS_nanosleep, &one, (void *)8)));
  for (clockid_t clock = -3; clock <= 14; clock++) {
    if (clock == CLOCK_PROCESS_CPUTIME_ID) continue; /* stands still while everyone sleeps */
    say("clock %d: %s", clock, result(syscall(SYS_clock_nanosleep, clock, 0, &one, NULL)));
  }
  say("flags %s", result(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 2, &one, NULL)));
}

CASE(relative) {
  for (int i = 0; i < COUNT(clocks); i++) {
    struct timespec time = timespec_of(15000000);
    int64_t before = now_ns(CLOCK_MONOTONIC);
    say("clock %d: %s", clocks[i], errname(clock_nanosleep(clocks[i], 0, &time, NULL)));
    must(now_ns(CLOCK_MONOTONIC) - before >= 15000000);
  }
}

CASE(absolute) {
  for (int i = 0; i < COUNT(clocks); i++) {
    for (int ms = -10; ms <= 20; ms += 10) {
      int64_t until = now_ns(clocks[i]) + ms * INT64_C(1000000);
      struct timespec time = timespec_of(until);
      say("clock %d, %d ms: %s", clocks[i], ms, errname(clock_nanosleep(clocks[i], TIMER_ABSTIME, &time, NULL)));
      must(now_ns(clocks[i]) >= until);
    }
  }
}

static atomic_int handled, asleep;
static void on_signal(int signal) { handled = signal; }

struct sleeper {
  bool absolute;
  int error;
  struct timespec left;
};

static void *sleep_long(void *argument) {
  struct sleeper *sleeper = argument;
  struct timespec time = {.tv_sec = 100};
  if (sleeper->absolute) time.tv_sec += now_ns(CLOCK_MONOTONIC) / 1000000000;
  asleep = 1;
  sleeper->error = clock_nanosleep(CLOCK_MONOTONIC, sleeper->absolute ? TIMER_ABSTIME : 0, &time, &sleeper->left);
  return NULL;
}

static void interrupt(const char *what, bool absolute, int flags) {
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
  struct sleeper sleeper = {.absolute = absolute, .left = {77, 77}};
  sigaction(SIGUSR1, &action, NULL);
  asleep = 0;
  pthread_t thread = start(sleep_long, &sleeper);
  wait_until(asleep);
  settle();
  pthread_kill(thread, SIGUSR1);
  finish(thread);
  bool written = sleeper.left.tv_sec != 77;
  say("%s: %s, remaining time %s", what, errname(sleeper.error), written ? "written" : "untouched");
  if (written) must(sleeper.left.tv_sec >= 60 && sleeper.left.tv_sec < 100);
}

CASE(interrupted) {
  interrupt("relative", false, 0);
  interrupt("relative, SA_RESTART", false, SA_RESTART);
  interrupt("absolute", true, 0);
  interrupt("absolute, SA_RESTART", true, SA_RESTART);
}

static void *sleep_short(void *unused) {
  (void)unused;
  struct timespec time = timespec_of(300000000);
  int64_t before = now_ns(CLOCK_MONOTONIC);
  asleep = 1;
  say("sleep %s", result(nanosleep(&time, NULL)));
  must(now_ns(CLOCK_MONOTONIC) - before >= 300000000);
  return NULL;
}

/* A blocked or ignored signal ends no sleep. */
CASE(not_interrupted) {
  sigset_t set;
  signal(SIGUSR1, SIG_IGN);
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  asleep = 0;
  pthread_t thread = start(sleep_short, NULL);
  wait_until(asleep);
  pthread_kill(thread, SIGUSR1);
  pthread_kill(thread, SIGUSR2);
  finish(thread);
}

static int64_t all_began;

static void *sleep_until_turn(void *index) {
  int64_t end = all_began + (50 + 20 * (intptr_t)index) * 1000000;
  struct timespec time = timespec_of(end);
  must(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == 0);
  must(now_ns(CLOCK_MONOTONIC) >= end);
  return NULL;
}

/* The order in which fair threads run whose times have passed while the machine was busy elsewhere is nobody's
 * promise; that of real-time threads on one CPU is judged where time stands still, in crates/kernel/tests/sleep.rs. */
CASE(many_wake_in_turn) {
  pthread_t threads[8];
  all_began = now_ns(CLOCK_MONOTONIC);
  for (intptr_t i = 7; i >= 0; i--) threads[i] = start(sleep_until_turn, (void *)i);
  for (int i = 0; i < 8; i++) finish(threads[i]);
  say("done");
}

static void *sleep_often(void *unused) {
  for (int i = 0; i < 200; i++) {
    struct timespec time = timespec_of(i * 1000);
    int64_t before = now_ns(CLOCK_MONOTONIC);
    must(nanosleep(&time, NULL) == 0);
    must(now_ns(CLOCK_MONOTONIC) - before >= i * 1000);
  }
  return unused;
}

CASE(many_sleep_often) {
  pthread_t threads[30];
  for (int i = 0; i < 30; i++) threads[i] = start(sleep_often, NULL);
  for (int i = 0; i < 30; i++) finish(threads[i]);
  say("done");
}

CASE(libc_forms) {
  int64_t before = now_ns(CLOCK_MONOTONIC);
  say("usleep %s", result(usleep(10000)));
  must(now_ns(CLOCK_MONOTONIC) - before >= 10000000);
  before = now_ns(CLOCK_MONOTONIC);
  say("sleep %u", sleep(1));
  must(now_ns(CLOCK_MONOTONIC) - before >= 1000000000);
}
