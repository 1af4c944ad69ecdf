/* The system calls themselves: what the C library checks or hides is not asked. */
#include "../check.h"
#include <sys/prctl.h>
#include <sys/resource.h>

#ifndef PR_TIMER_CREATE_RESTORE_IDS
#define PR_TIMER_CREATE_RESTORE_IDS 77
#endif
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

#define MS INT64_C(1000000)

typedef struct itimerspec setting;

static inline long create(int clock, struct sigevent *event, int *id) {
  return syscall(SYS_timer_create, clock, event, id);
}
static inline long settime(int id, int flags, const setting *new, setting *old) {
  return syscall(SYS_timer_settime, id, flags, new, old);
}
static inline long gettime(int id, setting *now) { return syscall(SYS_timer_gettime, id, now); }
static inline long overrun_of(int id) { return syscall(SYS_timer_getoverrun, id); }
static inline long delete(int id) { return syscall(SYS_timer_delete, id); }

static inline setting after(int64_t value, int64_t interval) {
  return (setting){.it_value = timespec_of(value), .it_interval = timespec_of(interval)};
}

static inline int64_t ns_of(struct timespec t) { return t.tv_sec * INT64_C(1000000000) + t.tv_nsec; }

static inline struct sigevent by_signal(int signal) {
  return (struct sigevent){.sigev_notify = SIGEV_SIGNAL, .sigev_signo = signal};
}

/* A timer that sends this signal to the process. */
__attribute__((unused)) static int timer_for(int signal) {
  struct sigevent event = by_signal(signal);
  int id = -1;
  need(create(CLOCK_MONOTONIC, &event, &id) == 0);
  return id;
}

__attribute__((unused)) static int silent_timer(void) {
  struct sigevent event = {.sigev_notify = SIGEV_NONE};
  int id = -1;
  need(create(CLOCK_MONOTONIC, &event, &id) == 0);
  return id;
}

__attribute__((unused)) static void arm(int id, int64_t value, int64_t interval) {
  setting s = after(value, interval);
  need(settime(id, 0, &s, NULL) == 0);
}

__attribute__((unused)) static sigset_t set_of(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  return set;
}

__attribute__((unused)) static void block(int signal) {
  sigset_t set = set_of(signal);
  need(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
}

__attribute__((unused)) static void unblock(int signal) {
  sigset_t set = set_of(signal);
  need(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
}

/* The next pending one of a blocked signal, or 0. */
__attribute__((unused)) static int take(int signal, siginfo_t *info) {
  sigset_t set = set_of(signal);
  struct timespec none = {0, 0};
  int got = sigtimedwait(&set, info, &none);
  return got < 0 ? 0 : got;
}

/* Waits for a blocked signal. */
__attribute__((unused)) static void await(int signal, siginfo_t *info) {
  sigset_t set = set_of(signal);
  struct timespec long_time = {20, 0};
  while (sigtimedwait(&set, info, &long_time) != signal) need(errno == EINTR);
}

__attribute__((unused)) static bool is_pending(int signal) {
  sigset_t set;
  need(sigpending(&set) == 0);
  return sigismember(&set, signal) == 1;
}

__attribute__((unused)) static atomic_int handled, first_overrun, last_overrun, last_id, last_code;
__attribute__((unused)) static _Atomic(void *) last_value;
__attribute__((unused)) static _Atomic pid_t last_tid;

__attribute__((unused)) static void note_it(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  /* Whoever looks late at the last one may find the next. */
  if (!handled) first_overrun = info->si_overrun;
  last_overrun = info->si_overrun;
  last_id = info->si_timerid;
  last_code = info->si_code;
  last_value = info->si_value.sival_ptr;
  last_tid = gettid();
  handled++;
}

__attribute__((unused)) static void handle(int signal) {
  struct sigaction action = {.sa_sigaction = note_it, .sa_flags = SA_SIGINFO | SA_RESTART};
  handled = 0;
  need(sigaction(signal, &action, NULL) == 0);
}

__attribute__((unused)) static void set_disposition(int signal, void (*to)(int)) {
  struct sigaction action = {.sa_handler = to};
  need(sigaction(signal, &action, NULL) == 0);
}
