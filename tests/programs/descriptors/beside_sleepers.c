// Threads that wait for a descriptor in the host, on CPUs on which others wait for a time.
//@ engines
#include "../check.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

static int quiet, loud;
static atomic_int naps;

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

// Wakes up every 2 ms, and ends the waits of the others after its last time.
static void *nap(void *count) {
  for (long left = (long)count; left > 0; left--) {
    usleep(2000);
    naps++;
  }
  if (write(loud, &(uint64_t){1}, 8) != 8) say("write: %s", strerrorname_np(errno));
  return NULL;
}

static int by_poll(int fd, int ms) { return poll(&(struct pollfd){fd, POLLIN, 0}, 1, ms); }

static int by_epoll(int fd, int ms) {
  struct epoll_event event = {EPOLLIN, {.fd = fd}};
  int instance = epoll_create1(0);
  epoll_ctl(instance, EPOLL_CTL_ADD, fd, &event);
  int ready = epoll_wait(instance, &event, 1, ms);
  close(instance);
  return ready;
}

static void beside_naps(int (*wait)(int, int)) {
  quiet = eventfd(0, 0), loud = eventfd(0, 0), naps = 0;
  pthread_t sleeper;
  pthread_create(&sleeper, NULL, nap, (void *)100L);
  for (int i = 0; i < 10; i++) {
    int64_t from = now();
    if (wait(quiet, 13) != 0) say("something is ready");
    must(now() - from >= 13000000);
  }
  say("after the last nap: %d ready", wait(loud, -1));
  say("with time left: %d ready", wait(loud, 10000));
  pthread_join(sleeper, NULL);
  say("%d naps", naps);
  close(quiet), close(loud);
}

CASE(poll) { beside_naps(by_poll); }
CASE(epoll) { beside_naps(by_epoll); }

static void nothing(int signo) { (void)signo; }

static pid_t waiter;

// Naps, and then sends a signal to the other, who waits.
static void *nap_and_interrupt(void *count) {
  nap(count);
  wait_until(state_of(waiter) == 'S');
  kill(getpid(), SIGALRM);
  return NULL;
}

// A signal ends the wait, however often the CPU was wanted before.
static void interrupted(int (*wait)(int, int)) {
  quiet = eventfd(0, 0), loud = eventfd(0, 0), waiter = gettid();
  sigaction(SIGALRM, &(struct sigaction){.sa_handler = nothing}, NULL);
  sigset_t alarm;
  sigemptyset(&alarm), sigaddset(&alarm, SIGALRM);
  pthread_t sleeper;
  pthread_sigmask(SIG_BLOCK, &alarm, NULL);
  pthread_create(&sleeper, NULL, nap_and_interrupt, (void *)25L);
  pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
  int ready = wait(quiet, -1);
  say("%d, %s", ready, strerrorname_np(errno));
  pthread_join(sleeper, NULL);
  close(quiet), close(loud);
}

CASE(poll_interrupted) { interrupted(by_poll); }
CASE(epoll_interrupted) { interrupted(by_epoll); }

static atomic_int is_back;
static bool was_back;

// Wakes up shortly before the wait of the other is over, and again a long while after, however busy the machine is.
static void *nap_twice(void *unused) {
  usleep(500000);
  usleep(1500000);
  was_back = is_back;
  return unused;
}

// That its CPU was wanted makes no wait longer.
static void in_time(int (*wait)(int, int)) {
  quiet = eventfd(0, 0), is_back = 0;
  pthread_t sleeper;
  pthread_create(&sleeper, NULL, nap_twice, NULL);
  // The CPU has nothing but a timeout left.
  usleep(50000);
  say("%d ready", wait(quiet, 600));
  is_back = 1;
  pthread_join(sleeper, NULL);
  say("back %s", was_back ? "in time" : "too late");
  close(quiet);
}

CASE(poll_in_time) { in_time(by_poll); }
CASE(epoll_in_time) { in_time(by_epoll); }
