/* Signals of another process, taken by turns by `sigtimedwait` and from a descriptor: what `poll` tells of can be read. */
#include "../check.h"
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

enum { REQUESTS = 2000 };

static _Atomic int *asked;
static sigset_t set;
static bool by_epoll, is_masked;

/* Sends one signal for each request. */
static pid_t sender(void) {
  pid_t child = fork();
  if (child != 0) return child;
  for (int i = 1; i <= REQUESTS; i++) {
    while (atomic_load(asked) < i) sched_yield();
    sigqueue(getppid(), SIGRTMIN, (union sigval){i});
  }
  _exit(0);
}

static bool is_ready(int fd, int epoll) {
  struct epoll_event event;
  struct pollfd one = {fd, POLLIN, 0};
  return (by_epoll ? epoll_wait(epoll, &event, 1, 15000) : poll(&one, 1, 15000)) == 1;
}

static void *take(void *unused) {
  int fd = signalfd(-1, &set, SFD_NONBLOCK), epoll = epoll_create1(0), missing = 0;
  struct epoll_event event = {EPOLLIN, {0}};
  need(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
  for (int i = 1; i <= REQUESTS; i++) {
    atomic_store(asked, i);
    for (volatile int turn = 0; turn < i * 7919 % 5000; turn++) {}
    struct timespec limit = {15, 0};
    siginfo_t info;
    struct signalfd_siginfo read_info;
    if (i & 1) {
      need(sigtimedwait(&set, &info, &limit) == SIGRTMIN && info.si_value.sival_int == i);
      continue;
    }
    need(is_ready(fd, epoll));
    while (read(fd, &read_info, sizeof read_info) != sizeof read_info) missing++;
    need(read_info.ssi_int == i);
    if (is_masked) need(ppoll(NULL, 0, &(struct timespec){0, 0}, &(sigset_t){0}) == 0);
  }
  say("missing %d", missing);
  close(fd), close(epoll);
  return unused;
}

static void run(bool epoll, bool masked, bool on_thread) {
  by_epoll = epoll, is_masked = masked;
  asked = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  sigemptyset(&set), sigaddset(&set, SIGRTMIN);
  need(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
  pid_t child = sender();
  pthread_t thread;
  if (on_thread) need(pthread_create(&thread, NULL, take, NULL) == 0 && pthread_join(thread, NULL) == 0);
  else take(NULL);
  need(waitpid(child, NULL, 0) == child);
}

CASE(by_poll) { run(false, false, false); }
CASE(by_epoll) { run(true, false, false); }
CASE(by_poll_of_a_thread) { run(false, false, true); }
CASE(by_epoll_of_a_thread) { run(true, false, true); }
CASE(between_waits_with_a_mask) { run(false, true, true); }
