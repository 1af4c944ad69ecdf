//@ engines
//@ seconds: 60
/* A thread waits for a set of descriptors by poll(2) and select(2), and in the set is a signalfd that reads signals of its own: each
 * signal is found, whoever else looks at the set. */
#include "../check.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>

#define ROUNDS 2000
static int fd, set;
static atomic_int found;

static bool polled(void) {
  struct pollfd two[2] = {{set, POLLIN, 0}, {set, POLLIN, 0}};
  /* A signal may arrive between the looks at the first and at the second. */
  return poll(two, 2, -1) >= 1 && (two[0].revents | two[1].revents) == POLLIN;
}
static bool selected(void) {
  fd_set sets;
  FD_ZERO(&sets);
  FD_SET(set, &sets);
  return select(set + 1, &sets, NULL, NULL, NULL) == 1 && FD_ISSET(set, &sets);
}
static bool waited(void) {
  struct epoll_event event;
  int n;
  while ((n = epoll_wait(set, &event, 1, -1)) == -1 && errno == EINTR) {}
  return n == 1;
}
static bool (*const looks[])(void) = {polled, selected, waited};

static void *take(void *argument) {
  bool (*look)(void) = *(bool (*const *)(void))argument;
  struct signalfd_siginfo info;
  for (int round = 0; round < ROUNDS; round++) {
    must(look());
    need(read(fd, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR1);
    atomic_store(&found, round + 1);
  }
  return NULL;
}

CASE(by_all_calls) {
  sigset_t usr1;
  sigemptyset(&usr1), sigaddset(&usr1, SIGUSR1);
  need(sigprocmask(SIG_BLOCK, &usr1, NULL) == 0);
  need((fd = signalfd(-1, &usr1, SFD_NONBLOCK)) >= 0 && (set = epoll_create1(0)) >= 0);
  need(epoll_ctl(set, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN}) == 0);
  for (int i = 0; i < COUNT(looks); i++) {
    atomic_store(&found, 0);
    pthread_t thread = start(take, (void *)&looks[i]);
    for (int round = 0; round < ROUNDS; round++) {
      need(pthread_kill(thread, SIGUSR1) == 0);
      wait_until(atomic_load(&found) > round);
    }
    finish(thread);
    say("all are found");
  }
  close(set), close(fd);
}
