/* Signals in a row to a process that waits: the sender looks at /proc/PID/stat, and sends the next one when it says S again.
 * Not waitid: `do_wait` says S for a moment after a signal has woken it. */
#include "../check.h"
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>

enum { SIGNALS = 200 };

static volatile sig_atomic_t handled;

static void count(int signal) {
  (void)signal;
  handled = handled + 1;
}

/* As glibc before 2.34 does in each program that is linked with its library for threads, in its own constructor. */
static void handle_the_librarys(void) {
  struct { void (*handler)(int); unsigned long flags; void (*restorer)(void); uint64_t mask; } action = {.handler = count};
  need(syscall(SYS_rt_sigaction, 32, &action, NULL, 8) == 0 && syscall(SYS_rt_sigaction, 33, &action, NULL, 8) == 0);
}

static void in_a_row(void (*wait_once)(void)) {
  int ready[2];
  pipe(ready);
  pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct sigaction action = {.sa_handler = count};
    sigaction(SIGUSR1, &action, NULL);
    /* A timer has ended one of its waits, as in most processes that are some time old. */
    sleep_ms(20);
    write(ready[1], "", 1);
    while (handled < SIGNALS) wait_once();
    _exit(0);
  }
  char byte;
  read(ready[0], &byte, 1);
  for (int i = 0; i < SIGNALS; i++) {
    wait_until(state_of(child) == 'S');
    kill(child, SIGUSR1);
  }
  /* After a lost signal it waits for ever. */
  int status;
  wait_until(waitpid(child, &status, WNOHANG) == child);
  say("%s", ended(status));
  close(ready[0]);
  close(ready[1]);
}

static void by_pause(void) { pause(); }
static void by_sleep(void) { nanosleep(&(struct timespec){100, 0}, NULL); }
static void by_poll(void) { poll(NULL, 0, -1); }
static void by_select(void) { select(0, NULL, NULL, NULL, NULL); }

static void by_suspend(void) {
  sigset_t none;
  sigemptyset(&none);
  sigsuspend(&none);
}

static void by_semaphore(void) {
  static sem_t semaphore;
  sem_wait(&semaphore);
}

static void by_read(void) {
  static int ends[2];
  if (ends[1] == 0) pipe(ends);
  char byte;
  read(ends[0], &byte, 1);
}

static void by_epoll(void) {
  static int epoll;
  if (epoll == 0) epoll = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event event;
  epoll_wait(epoll, &event, 1, -1);
}

CASE(pause) { in_a_row(by_pause); }
CASE(pause_with_an_older_library) {
  handle_the_librarys();
  in_a_row(by_pause);
}
CASE(nanosleep) { in_a_row(by_sleep); }
CASE(poll) { in_a_row(by_poll); }
CASE(select) { in_a_row(by_select); }
CASE(sigsuspend) { in_a_row(by_suspend); }
CASE(semaphore) { in_a_row(by_semaphore); }
CASE(read) { in_a_row(by_read); }
CASE(epoll_wait) { in_a_row(by_epoll); }
