//@ stderr: ignore
//@ alone
//@ seconds: 240
/* Periodic timers under load, counted: no expiry is early, and each one is a delivery or an overrun of one, through
 * times in which their signal is blocked or ignored or the whole process is stopped. ENTRESOL_EXPIRIES asks for
 * more than the few thousand that a test has time for. */
#include "../check.h"

#define MS INT64_C(1000000)
enum { TIMERS = 200, SIGNAL = 40, SPINNERS = 3 };
#define PERIOD (5 * MS)

static struct periodic {
  timer_t id;
  int64_t first;
  /* Deliveries and overruns. */
  int64_t told;
  bool settled;
} timers[TIMERS];

static atomic_int stop;
static int64_t deliveries, overruns;

static void *spin(void *unused) {
  while (!atomic_load(&stop)) {}
  return unused;
}

static pthread_t spinners[SPINNERS];

static void start_spinners(void) {
  atomic_store(&stop, 0);
  for (int i = 0; i < SPINNERS; i++) spinners[i] = start(spin, NULL);
}

static void end_spinners(void) {
  atomic_store(&stop, 1);
  for (int i = 0; i < SPINNERS; i++) finish(spinners[i]);
}

static int64_t expiries_by(const struct periodic *timer, int64_t now) {
  return now < timer->first ? 0 : (now - timer->first) / PERIOD + 1;
}

/* One delivery. Never more than have expired; all of them, unless another came since. */
static void take(const siginfo_t *info) {
  struct periodic *timer = &timers[info->si_value.sival_int];
  timer->told += 1 + info->si_overrun;
  deliveries++, overruns += info->si_overrun;
  int64_t due = expiries_by(timer, now_ns(CLOCK_MONOTONIC));
  must(timer->told <= due);
  timer->settled = timer->told == due;
}

static void on_signal(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  take(info);
}

static void receive(const sigset_t *set, int64_t many) {
  int64_t enough = deliveries + overruns + many, limit = now_ns(CLOCK_MONOTONIC) + 200000 * MS;
  while (deliveries + overruns < enough) {
    siginfo_t info;
    struct timespec second = {1, 0};
    if (sigtimedwait(set, &info, &second) == SIGNAL) take(&info);
    need(now_ns(CLOCK_MONOTONIC) < limit);
  }
}

/* Each timer's last delivery has told everything: then what is told is what has expired. */
static void settle_all(const sigset_t *set) {
  int64_t limit = now_ns(CLOCK_MONOTONIC) + 100000 * MS;
  for (int left = TIMERS; left > 0;) {
    siginfo_t info;
    need(now_ns(CLOCK_MONOTONIC) < limit);
    if (sigwaitinfo(set, &info) != SIGNAL) continue;
    struct periodic *timer = &timers[info.si_value.sival_int];
    take(&info);
    if (!timer->settled) continue;
    need(timer_delete(timer->id) == 0);
    left--;
  }
}

CASE(are_deliveries_and_overruns) {
  const char *asked = getenv("ENTRESOL_EXPIRIES");
  int64_t many = asked ? atoll(asked) : 20000;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGNAL);
  need(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
  start_spinners();
  for (int i = 0; i < TIMERS; i++) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGNAL, .sigev_value.sival_int = i};
    need(timer_create(CLOCK_MONOTONIC, &event, &timers[i].id) == 0);
    timers[i].first = now_ns(CLOCK_MONOTONIC) + 20 * MS;
    struct itimerspec setting = {timespec_of(PERIOD), timespec_of(timers[i].first)};
    need(timer_settime(timers[i].id, TIMER_ABSTIME, &setting, NULL) == 0);
  }
  receive(&set, many / 4);
  /* Blocked, and nobody waits. */
  sleep_ms(100);
  receive(&set, many / 4);
  /* Ignored. What expires while it is blocked as well, be it by the thread that the timer interrupts, is pending, and
   * delivered to nobody when another takes it: so it is handled before and afterwards, and nobody else is there. */
  end_spinners();
  struct sigaction handled = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
  struct sigaction ignored = {.sa_handler = SIG_IGN};
  need(sigaction(SIGNAL, &handled, NULL) == 0 && sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
  need(sigaction(SIGNAL, &ignored, NULL) == 0);
  sleep_ms(100);
  need(sigaction(SIGNAL, &handled, NULL) == 0 && sigprocmask(SIG_BLOCK, &set, NULL) == 0);
  receive(&set, many / 4);
  start_spinners();
  /* Stopped. */
  pid_t self = getpid(), child = fork();
  need(child != -1);
  if (child == 0) {
    kill(self, SIGSTOP);
    sleep_ms(100);
    kill(self, SIGCONT);
    _exit(0);
  }
  need(waitpid(child, NULL, 0) == child);
  receive(&set, many / 4);
  settle_all(&set);
  end_spinners();
  must(deliveries + overruns >= many);
  if (asked) fprintf(stderr, "%lld expiries: %lld deliveries, %lld overruns, none early\n",
                     (long long)(deliveries + overruns), (long long)deliveries, (long long)overruns);
  say("all of them");
}
