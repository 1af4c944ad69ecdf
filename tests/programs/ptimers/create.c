/* What timer_create takes and refuses (table B4). */
#include "raw.h"

static const char *with(int clock, struct sigevent event) {
  int id = -1;
  if (create(clock, &event, &id) != 0) return errname(errno);
  must(id >= 0);
  must(delete(id) == 0);
  return "ok";
}

CASE(clocks) {
  for (int clock = 0; clock < 32; clock++) {
    if (clock == 8 || clock == 9) continue; /* alarm clocks: by the machine and the user */
    say("clock %d: %s", clock, with(clock, by_signal(SIGUSR1)));
  }
}

CASE(encoded_clocks) {
  say("own process %s", with((~getpid() * 8) | 2, by_signal(SIGUSR1)));
  say("own process by 0 %s", with((~0 * 8) | 2, by_signal(SIGUSR1)));
  say("own thread by 0 %s", with((~0 * 8) | 6, by_signal(SIGUSR1)));
  say("user time %s", with((~0 * 8) | 1, by_signal(SIGUSR1)));
  say("user and system time %s", with((~0 * 8) | 0, by_signal(SIGUSR1)));
  say("nobody's thread %s", with((~0x3ffff00 * 8) | 6, by_signal(SIGUSR1)));
  say("nobody's process %s", with((~0x3ffff00 * 8) | 2, by_signal(SIGUSR1)));
  say("a descriptor's %s", with((~0 * 8) | 3, by_signal(SIGUSR1)));
  say("none %s", with(-1, by_signal(SIGUSR1)));
}

CASE(signals) {
  for (int signal = -1; signal <= 66; signal++)
    if (signal < 2 || signal == 9 || signal == 19 || signal > 63) say("signal %d: %s", signal, with(1, by_signal(signal)));
  say("a large one %s", with(1, by_signal(256 + 10)));
}

CASE(notifications) {
  for (int how = -1; how < 10; how++) {
    struct sigevent event = {.sigev_notify = how, .sigev_signo = SIGUSR1, .sigev_notify_thread_id = gettid()};
    say("notification %d: %s", how, with(CLOCK_MONOTONIC, event));
  }
}

CASE(nobody_needs_no_signal) {
  for (int signal = -3; signal < 80; signal += 40) {
    struct sigevent event = {.sigev_notify = SIGEV_NONE, .sigev_signo = signal};
    say("signal %d: %s", signal, with(CLOCK_MONOTONIC, event));
  }
}

static struct sigevent aimed(pid_t tid) {
  return (struct sigevent){.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1, .sigev_notify_thread_id = tid};
}
static atomic_int hold;
static _Atomic pid_t other;
static void *wait_here(void *unused) {
  (void)unused;
  other = gettid();
  while (hold) usleep(1000);
  return NULL;
}
CASE(threads_to_aim_at) {
  hold = 1;
  other = 0;
  pthread_t thread = start(wait_here, NULL);
  wait_until(other);
  say("another thread %s", with(CLOCK_MONOTONIC, aimed(other)));
  say("oneself %s", with(CLOCK_MONOTONIC, aimed(gettid())));
  hold = 0;
  finish(thread);
  wait_until(tgkill(getpid(), other, 0) != 0);
  say("a dead one %s", with(CLOCK_MONOTONIC, aimed(other)));
  say("0 %s", with(CLOCK_MONOTONIC, aimed(0)));
  say("-1 %s", with(CLOCK_MONOTONIC, aimed(-1)));
  say("another process %s", with(CLOCK_MONOTONIC, aimed(getppid())));
}

CASE(without_an_event) {
  int id = -1;
  block(SIGALRM);
  need(create(CLOCK_MONOTONIC, NULL, &id) == 0);
  arm(id, MS, 0);
  siginfo_t info;
  await(SIGALRM, &info);
  say("code %d, id the same %d, value the id %d", info.si_code, info.si_timerid == id, info.si_value.sival_int == id);
  delete(id);
}

CASE(what_the_signal_tells) {
  struct sigevent event = by_signal(SIGRTMIN + 1);
  event.sigev_value.sival_ptr = (void *)0x123456789abcdef0;
  int id = -1;
  block(SIGRTMIN + 1);
  need(create(CLOCK_REALTIME, &event, &id) == 0);
  arm(id, MS, 0);
  siginfo_t info;
  memset(&info, 0xff, sizeof info);
  await(SIGRTMIN + 1, &info);
  say("value %p, overrun %d, code %d, errno %d", info.si_value.sival_ptr, info.si_overrun, info.si_code, info.si_errno);
  must(info.si_timerid == id);
  unsigned char *bytes = (unsigned char *)&info;
  int others = 0;
  for (int i = 32; i < 128; i++) others |= bytes[i];
  say("the rest %d", others);
  delete(id);
}

CASE(bad_places) {
  int id = -1;
  struct sigevent event = by_signal(SIGUSR1);
  say("event %s", result(create(CLOCK_MONOTONIC, (struct sigevent *)8, &id)));
  say("event before clock %s", result(create(10, (struct sigevent *)8, &id)));
  say("clock before id %s", result(create(10, &event, (int *)8)));
  say("id %s", result(create(CLOCK_MONOTONIC, &event, (int *)8)));
  say("event before id %s", result(create(CLOCK_MONOTONIC, &(struct sigevent){.sigev_notify = 9}, (int *)8)));
}
