//@ engines
/* signalfd: signals that are read, polled for, and taken otherwise after all. */
#include "../check.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/uio.h>

static sigset_t set_of(int a, int b) {
  sigset_t set;
  sigemptyset(&set);
  if (a) sigaddset(&set, a);
  if (b) sigaddset(&set, b);
  return set;
}

static int descriptor(int a, int b, int flags) {
  sigset_t set = set_of(a, b);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  int fd = signalfd(-1, &set, flags);
  need(fd >= 0);
  return fd;
}

static volatile sig_atomic_t handled;
static void note_it(int signal) {
  (void)signal;
  handled++;
}

static void install(int signal, void (*to)(int)) {
  struct sigaction action = {.sa_handler = to};
  need(sigaction(signal, &action, NULL) == 0);
}

static bool readable(int fd, int ms) {
  struct pollfd one = {.fd = fd, .events = POLLIN};
  return poll(&one, 1, ms) == 1 && one.revents == POLLIN;
}

CASE(read_in_order) {
  int fd = descriptor(SIGUSR1, SIGUSR2, SFD_NONBLOCK);
  struct signalfd_siginfo info[3];
  say("nothing %s", result(read(fd, info, sizeof info)));
  kill(getpid(), SIGUSR2);
  kill(getpid(), SIGUSR1);
  kill(getpid(), SIGUSR1);
  must(read(fd, info, sizeof info) == 2 * sizeof *info);
  for (int i = 0; i < 2; i++)
    say("%s, code %d, own %d", sigabbrev_np((int)info[i].ssi_signo), info[i].ssi_code, info[i].ssi_pid == (unsigned)getpid());
  say("nothing %s", result(read(fd, info, sizeof info)));
  say("too short %s", result(read(fd, info, 12)));
  close(fd);
}

CASE(values_and_queues) {
  int signal = SIGRTMIN + 6, fd = descriptor(signal, 0, SFD_NONBLOCK);
  struct signalfd_siginfo info;
  for (int i = 1; i <= 5; i++) must(sigqueue(getpid(), signal, (union sigval){.sival_int = i * 11}) == 0);
  while (read(fd, &info, sizeof info) == sizeof info) say("value %d, code %d", info.ssi_int, info.ssi_code);
  close(fd);
}

CASE(poll_and_pending) {
  int fd = descriptor(SIGUSR1, 0, SFD_NONBLOCK);
  sigset_t pending;
  struct signalfd_siginfo info;
  say("readable %d", readable(fd, 0));
  kill(getpid(), SIGUSR1);
  say("readable %d", readable(fd, 1000));
  sigpending(&pending);
  say("pending %d", sigismember(&pending, SIGUSR1));
  must(read(fd, &info, sizeof info) == sizeof info);
  sigpending(&pending);
  say("read: readable %d, pending %d", readable(fd, 0), sigismember(&pending, SIGUSR1));
  close(fd);
}

CASE(raised_by_the_thread_itself) {
  int fd = descriptor(SIGUSR1, 0, SFD_NONBLOCK);
  struct signalfd_siginfo info;
  raise(SIGUSR1);
  must(read(fd, &info, sizeof info) == sizeof info);
  say("%s", sigabbrev_np((int)info.ssi_signo));
  close(fd);
}

CASE(pending_before_there_is_a_descriptor) {
  sigset_t set = set_of(SIGUSR1, 0);
  struct signalfd_siginfo info;
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  kill(getpid(), SIGUSR1);
  int fd = signalfd(-1, &set, SFD_NONBLOCK);
  must(read(fd, &info, sizeof info) == sizeof info);
  say("%s", sigabbrev_np((int)info.ssi_signo));
  close(fd);
}

CASE(epoll_and_children) {
  int fd = descriptor(SIGCHLD, SIGUSR2, SFD_NONBLOCK | SFD_CLOEXEC), queue = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN, .data.fd = fd}, got;
  need(epoll_ctl(queue, EPOLL_CTL_ADD, fd, &event) == 0);
  say("nothing %s", result(epoll_wait(queue, &got, 1, 0)));
  for (int i = 0; i < 3; i++) {
    pid_t child = fork();
    if (child == 0) {
      kill(getppid(), SIGUSR2);
      _exit(i);
    }
    int status;
    bool usr2 = false, chld = false;
    while (!usr2 || !chld) {
      struct signalfd_siginfo info;
      need(epoll_wait(queue, &got, 1, 20000) == 1);
      while (read(fd, &info, sizeof info) == sizeof info) {
        must(info.ssi_pid == (unsigned)child);
        if (info.ssi_signo == SIGUSR2) usr2 = true;
        if (info.ssi_signo != SIGCHLD) continue;
        chld = true;
        must(info.ssi_code == CLD_EXITED && info.ssi_status == i);
      }
    }
    must(waitpid(child, &status, 0) == child);
    say("child %d: %s", i, ended(status));
  }
  close(queue);
  close(fd);
}

static int shared_fd;
static atomic_int taken;
static void *read_five(void *unused) {
  (void)unused;
  for (int i = 0; i < 5; i++) {
    struct signalfd_siginfo info;
    must(read(shared_fd, &info, sizeof info) == sizeof info);
    must(info.ssi_signo == SIGUSR1);
    taken++;
  }
  return NULL;
}
/* One at a time: two that wait to be read would be one. */
CASE(a_thread_that_waits_in_read) {
  shared_fd = descriptor(SIGUSR1, 0, 0);
  taken = 0;
  pthread_t thread = start(read_five, NULL);
  for (int i = 0; i < 5; i++) {
    sleep_ms(10);
    kill(getpid(), SIGUSR1);
    wait_until(taken == i + 1);
  }
  finish(thread);
  say("done");
  close(shared_fd);
}

CASE(unblocked_after_all) {
  int fd = descriptor(SIGUSR1, 0, SFD_NONBLOCK);
  struct signalfd_siginfo info;
  install(SIGUSR1, note_it);
  handled = 0;
  kill(getpid(), SIGUSR1);
  say("blocked %d", handled);
  sigset_t set = set_of(SIGUSR1, 0);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  say("let through %d, left to read %s", handled, result(read(fd, &info, sizeof info)));
  kill(getpid(), SIGUSR1);
  say("handled %d", handled);
  if (fork() == 0) {
    kill(getppid(), SIGUSR1);
    _exit(0);
  }
  wait_until(handled == 3);
  while (wait(NULL) == -1) need(errno == EINTR);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  kill(getpid(), SIGUSR1);
  must(read(fd, &info, sizeof info) == sizeof info);
  say("read again, handled %d", handled);
  install(SIGUSR1, SIG_DFL);
  close(fd);
}

CASE(waited_for_after_all) {
  int fd = descriptor(SIGUSR1, SIGUSR2, SFD_NONBLOCK);
  struct signalfd_siginfo info;
  sigset_t set = set_of(SIGUSR1, 0), none;
  struct timespec zero = {0, 0};
  kill(getpid(), SIGUSR1);
  kill(getpid(), SIGUSR2);
  int signal;
  must(sigwait(&set, &signal) == 0);
  say("sigwait took %s", sigabbrev_np(signal));
  must(read(fd, &info, sizeof info) == sizeof info);
  say("read %s", sigabbrev_np((int)info.ssi_signo));
  say("nothing %s", result(sigtimedwait(&set, NULL, &zero)));
  install(SIGUSR1, note_it);
  handled = 0;
  kill(getpid(), SIGUSR1);
  sigemptyset(&none);
  say("sigsuspend %s, handled %d", result(sigsuspend(&none)), handled);
  kill(getpid(), SIGUSR1);
  say("ppoll %s, handled %d", result(ppoll(NULL, 0, NULL, &none)), handled);
  kill(getpid(), SIGUSR1);
  must(read(fd, &info, sizeof info) == sizeof info);
  say("read %s", sigabbrev_np((int)info.ssi_signo));
  install(SIGUSR1, SIG_DFL);
  close(fd);
}

static atomic_bool stop;
static void *take_it_otherwise(void *unused) {
  (void)unused;
  sigset_t set = set_of(SIGUSR1, 0);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  while (!stop) usleep(500);
  return NULL;
}
CASE(another_thread_does_not_block_it) {
  install(SIGUSR1, note_it);
  stop = false;
  handled = 0;
  int fd = descriptor(SIGUSR1, 0, SFD_NONBLOCK);
  struct signalfd_siginfo info;
  pthread_t thread = start(take_it_otherwise, NULL);
  sleep_ms(20);
  kill(getpid(), SIGUSR1);
  wait_until(handled == 1);
  say("left to read %s", result(read(fd, &info, sizeof info)));
  if (fork() == 0) {
    kill(getppid(), SIGUSR1);
    _exit(0);
  }
  wait_until(handled == 2);
  while (wait(NULL) == -1) need(errno == EINTR);
  stop = true;
  finish(thread);
  kill(getpid(), SIGUSR1);
  must(read(fd, &info, sizeof info) == sizeof info);
  say("read %s, handled %d", sigabbrev_np((int)info.ssi_signo), handled);
  install(SIGUSR1, SIG_DFL);
  close(fd);
}

CASE(ignored_after_all) {
  int fd = descriptor(SIGUSR1, 0, SFD_NONBLOCK);
  struct signalfd_siginfo info;
  kill(getpid(), SIGUSR1);
  install(SIGUSR1, SIG_IGN);
  say("nothing %s", result(read(fd, &info, sizeof info)));
  install(SIGUSR1, SIG_DFL);
  close(fd);
}

CASE(timers) {
  int signal = SIGRTMIN + 7, fd = descriptor(signal, 0, 0);
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = signal, .sigev_value.sival_int = 5};
  struct itimerspec time = {.it_value = {0, 2000000}, .it_interval = {0, 2000000}};
  struct signalfd_siginfo info;
  timer_t timer;
  need(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  need(timer_settime(timer, 0, &time, NULL) == 0);
  for (int i = 0; i < 10; i++) {
    must(read(fd, &info, sizeof info) == sizeof info);
    must(info.ssi_code == SI_TIMER && info.ssi_int == 5);
  }
  timer_delete(timer);
  say("done");
  close(fd);
}

/* Blocked when the descriptor is there already: the first one that comes is given back for it to read. */
CASE(ends_of_children) {
  int fd = descriptor(SIGCHLD, 0, 0);
  struct signalfd_siginfo info;
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, SIGCHLD);
  for (int i = 0; i < 50; i++) {
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    pthread_sigmask(SIG_BLOCK, &one, NULL);
    pid_t child = fork();
    need(child >= 0);
    if (child == 0) _exit(i);
    int status;
    must(waitpid(child, &status, 0) == child);
    must(read(fd, &info, sizeof info) == sizeof info);
    must(info.ssi_signo == SIGCHLD);
  }
  say("all read");
  close(fd);
}

CASE(duplicates_and_forked_children) {
  int fd = descriptor(SIGUSR1, 0, SFD_NONBLOCK), other = dup(fd);
  struct signalfd_siginfo info;
  kill(getpid(), SIGUSR1);
  must(read(other, &info, sizeof info) == sizeof info);
  say("read %s", sigabbrev_np((int)info.ssi_signo));
  pid_t child = fork();
  if (child == 0) {
    kill(getpid(), SIGUSR1);
    must(read(fd, &info, sizeof info) == sizeof info);
    say("in a child %s", sigabbrev_np((int)info.ssi_signo));
    _exit(0);
  }
  int status;
  must(waitpid(child, &status, 0) == child);
  say("nothing in the parent %s", result(read(fd, &info, sizeof info)));
  close(other);
  close(fd);
}

/* Who sent it, and what a child's end says, are there whenever the descriptor was made. */
CASE(senders_are_kept) {
  sigset_t set = set_of(SIGUSR1, SIGCHLD);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  for (int early = 0; early < 2; early++) {
    int fd = early ? -1 : descriptor(SIGUSR1, SIGCHLD, SFD_NONBLOCK);
    raise(SIGUSR1);
    pid_t child = fork();
    if (child == 0) _exit(7);
    need(child > 0 && waitid(P_PID, child, &(siginfo_t){0}, WEXITED | WNOWAIT) == 0);
    if (early) fd = descriptor(SIGUSR1, SIGCHLD, SFD_NONBLOCK);
    struct signalfd_siginfo info;
    while (read(fd, &info, sizeof info) == sizeof info)
      say("%s code %d, own %d, child %d, status %d", sigabbrev_np((int)info.ssi_signo), info.ssi_code,
          info.ssi_pid == (unsigned)getpid(), info.ssi_pid == (unsigned)child, info.ssi_status);
    need(waitpid(child, NULL, 0) == child);
    /* It lets the one in and blocks it again: the next one is as it was sent, too. */
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    raise(SIGUSR1);
    need(read(fd, &info, sizeof info) == sizeof info);
    say("again %s code %d", sigabbrev_np((int)info.ssi_signo), info.ssi_code);
    close(fd);
  }
}

/* An execve that fails leaves to the descriptor what it is to read. */
CASE(an_execve_that_fails) {
  int fd = descriptor(SIGUSR1, SIGRTMIN, SFD_NONBLOCK);
  for (int i = 0; i < 4; i++) {
    int signal = i % 2 ? SIGRTMIN : SIGUSR1;
    if (i < 2) kill(getpid(), signal);
    else pthread_kill(pthread_self(), signal);
    execl("/nonexistent", "nothing", NULL);
    execl("/dev/null", "nothing", NULL);
    struct signalfd_siginfo info;
    need(read(fd, &info, sizeof info) == sizeof info);
    say("%d: that signal %d, own %d", i, info.ssi_signo == (unsigned)signal, info.ssi_pid == (unsigned)getpid());
    say("%d: nothing more %s", i, result(read(fd, &info, sizeof info)));
  }
  close(fd);
}

/* A signal that the host raises for a call, and that a descriptor is to read. */
CASE(a_broken_pipe) {
  int fd = descriptor(SIGPIPE, SIGXFSZ, SFD_NONBLOCK), ends[2];
  need(pipe(ends) == 0);
  close(ends[0]);
  struct signalfd_siginfo info;
  for (int i = 0; i < 2; i++) {
    struct iovec piece = {"x", 1};
    say("write %s", result(i == 0 ? write(ends[1], "x", 1) : writev(ends[1], &piece, 1)));
    need(read(fd, &info, sizeof info) == sizeof info);
    say("%s code %d", sigabbrev_np((int)info.ssi_signo), info.ssi_code);
    say("nothing more %s", result(read(fd, &info, sizeof info)));
  }
  close(ends[1]);
  struct rlimit limit;
  need(getrlimit(RLIMIT_FSIZE, &limit) == 0);
  rlim_t before = limit.rlim_cur;
  limit.rlim_cur = 1;
  int file = memfd_create("limited", 0);
  need(file >= 0 && setrlimit(RLIMIT_FSIZE, &limit) == 0);
  /* Nothing can be said until the limit is gone, because the output may be a file. */
  const char *fits = result(write(file, "x", 1)), *does_not = result(write(file, "x", 1));
  limit.rlim_cur = before;
  need(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  say("fits %s, does not %s", fits, does_not);
  need(read(fd, &info, sizeof info) == sizeof info);
  say("%s code %d", sigabbrev_np((int)info.ssi_signo), info.ssi_code);
  close(file), close(fd);
}

/* One thread blocks the signal, and others do not: what is sent to it alone is for its own calls (`signalfd_dequeue`). */
enum { OWN_WAITS = 5 };
static int own_fd, own_set;
static atomic_int own_waits;
static pthread_barrier_t own_ready;

static long own_read(void) {
  struct signalfd_siginfo info[3] = {0};
  long n = read(own_fd, info, sizeof info);
  return n < 0 ? -errno : n / (long)sizeof *info * 1000 + (long)info[0].ssi_signo * 10 + (info[0].ssi_code == SI_TKILL);
}
static long own_polled(int ms) {
  struct pollfd two[2] = {{.fd = -1}, {.fd = own_fd, .events = POLLIN}};
  return poll(two, 2, ms) * 10 + two[1].revents;
}
static long own_found(int ms) {
  struct epoll_event event = {0};
  int n;
  do n = epoll_wait(own_set, &event, 1, ms);
  while (n < 0 && errno == EINTR);
  return n * 1000 + (n > 0 ? (long)event.data.u32 : 0);
}

static long own_selected(long ms) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(own_fd, &set);
  struct timeval time = {0, ms * 1000};
  return select(own_fd + 1, &set, NULL, NULL, ms < 0 ? NULL : &time) * 10 + FD_ISSET(own_fd, &set);
}
/* The call has a mask, which blocks the signal as well. */
static long own_masked(void) {
  struct pollfd one = {.fd = own_fd, .events = POLLIN};
  sigset_t mask = set_of(SIGUSR1, 0);
  return ppoll(&one, 1, NULL, &mask) * 10 + one.revents;
}

static void *has_own_signals(void *unused) {
  int rt = SIGRTMIN + 3;
  own_fd = descriptor(SIGUSR1, rt, 0);
  own_set = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = 77};
  need(epoll_ctl(own_set, EPOLL_CTL_ADD, own_fd, &event) == 0);
  say("nothing: %ld %ld", own_polled(0), own_found(0));
  raise(SIGUSR1);
  say("one: %ld %ld", own_polled(-1), own_found(-1));
  say("selected %ld %ld, with a mask %ld", own_selected(-1), own_selected(0), own_masked());
  sigset_t pending;
  need(sigpending(&pending) == 0);
  say("pending %d", sigismember(&pending, SIGUSR1));
  say("read %ld", own_read());
  say("nothing: %ld %ld", own_polled(0), own_found(0));
  for (int i = 0; i < 2; i++) need(pthread_kill(pthread_self(), rt) == 0);
  raise(SIGUSR1);
  say("three: %ld", own_read() / 1000);
  /* It comes while the thread waits. */
  for (int i = 0; i < OWN_WAITS; i++) {
    pthread_barrier_wait(&own_ready);
    atomic_store(&own_waits, i + 1);
    if (i == 1) say("comes: polled %ld", own_polled(-1));
    if (i == 2) say("comes: found %ld", own_found(-1));
    if (i == 3) say("comes: selected %ld", own_selected(-1));
    if (i == 4) say("comes: with a mask %ld", own_masked());
    say("comes: read %ld", own_read());
  }
  /* Unblocked after all. */
  raise(SIGUSR1);
  sigset_t set = set_of(SIGUSR1, 0);
  need(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
  say("handled %d", (int)handled);
  close(own_set), close(own_fd);
  return unused;
}

CASE(own_signals) {
  install(SIGUSR1, note_it);
  handled = 0;
  need(pthread_barrier_init(&own_ready, NULL, 2) == 0);
  atomic_store(&own_waits, 0);
  pthread_t thread = start(has_own_signals, NULL);
  for (int i = 0; i < OWN_WAITS; i++) {
    pthread_barrier_wait(&own_ready);
    while (atomic_load(&own_waits) <= i) sched_yield();
    if (i) sleep_ms(3);
    need(pthread_kill(thread, SIGUSR1) == 0);
  }
  finish(thread);
  /* Sent to the process, it is for whoever does not block it. */
  kill(getpid(), SIGUSR1);
  say("handled %d", (int)handled);
}

/* What is for a descriptor of the thread's own and what it does otherwise. */
static int own_pipe[2];
static void *writes_much(void *unused) {
  static char bytes[1 << 20];
  own_fd = descriptor(SIGUSR1, 0, 0);
  atomic_store(&own_waits, 1);
  say("written %ld", (long)write(own_pipe[1], bytes, sizeof bytes));
  say("and read %ld", own_read());
  /* Flushed, because it is ignored for a moment. */
  raise(SIGUSR1);
  signal(SIGUSR1, SIG_IGN);
  install(SIGUSR1, note_it);
  need(fcntl(own_fd, F_SETFL, O_NONBLOCK) == 0);
  say("flushed: polled %ld, read %ld", own_polled(0), own_read());
  close(own_fd);
  /* A timer that expires often has one signal there. */
  own_fd = descriptor(SIGRTMIN + 3, 0, SFD_NONBLOCK);
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 3, ._sigev_un._tid = gettid()};
  timer_t timer;
  need(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  need(timer_settime(timer, 0, &(struct itimerspec){{0, 500000}, {0, 500000}}, NULL) == 0);
  for (int i = 0; i < 20; i++) {
    must(own_polled(-1) == 11);
    sleep_ms(1);
  }
  need(timer_settime(timer, 0, &(struct itimerspec){0}, NULL) == 0);
  long expired = 0;
  while (own_read() > 0) expired++;
  say("expired %s", expired <= 1 ? "once at most" : "often");
  close(own_fd);
  /* The call's mask holds the signal back, and the descriptor reads it. */
  own_fd = descriptor(SIGUSR1, 0, 0);
  sigset_t set = set_of(SIGUSR1, 0);
  need(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
  atomic_store(&own_waits, 2);
  long found = own_masked();
  say("with a mask %ld, handled %d", found, (int)handled);
  close(own_fd);
  return unused;
}
CASE(own_signals_and_other_calls) {
  static char bytes[1 << 16];
  install(SIGUSR1, note_it);
  handled = 0;
  need(pipe(own_pipe) == 0);
  atomic_store(&own_waits, 0);
  pthread_t thread = start(writes_much, NULL);
  wait_until(atomic_load(&own_waits) == 1);
  sleep_ms(3);
  need(pthread_kill(thread, SIGUSR1) == 0);
  sleep_ms(3);
  for (long left = 1 << 20; left > 0;) {
    long n = read(own_pipe[0], bytes, sizeof bytes);
    need(n > 0);
    left -= n;
  }
  wait_until(atomic_load(&own_waits) == 2);
  sleep_ms(3);
  need(pthread_kill(thread, SIGUSR1) == 0);
  finish(thread);
  close(own_pipe[0]), close(own_pipe[1]);
}

/* While a signal is sent, all threads may block it: it stays one of the thread that it was sent to. */
enum { OWN_STORM = 2000 };
static atomic_int own_over;
static void *blocks_and_unblocks(void *unused) {
  sigset_t set = set_of(SIGUSR1, 0);
  while (!atomic_load(&own_over)) pthread_sigmask(SIG_BLOCK, &set, NULL), pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  return unused;
}
static void *reads_a_storm(void *unused) {
  own_fd = descriptor(SIGUSR1, 0, 0);
  atomic_store(&own_waits, 1);
  long wrong = 0;
  for (int i = 1; i <= OWN_STORM; i++) {
    wrong += own_read() != 1000 + SIGUSR1 * 10 + 1;
    atomic_store(&own_waits, i + 1);
  }
  say("wrong %ld", wrong);
  close(own_fd);
  return unused;
}
CASE(own_signals_in_a_storm) {
  install(SIGUSR1, note_it);
  handled = 0;
  atomic_store(&own_waits, 0), atomic_store(&own_over, 0);
  pthread_t reader = start(reads_a_storm, NULL), other = start(blocks_and_unblocks, NULL);
  sigset_t set = set_of(SIGUSR1, 0);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  for (int i = 1; i <= OWN_STORM; i++) {
    while (atomic_load(&own_waits) < i) sched_yield();
    need(pthread_kill(reader, SIGUSR1) == 0);
  }
  finish(reader);
  atomic_store(&own_over, 1);
  finish(other);
  say("handled %d", (int)handled);
}

/* A descriptor that a thread owns sends its signals to that thread alone. */
static int owned_signal, owned_reader;
static atomic_int owned_step;
static void *own_a_pipe(void *unused) {
  int ends[2];
  struct f_owner_ex owner = {F_OWNER_TID, gettid()};
  need(pipe(ends) == 0 && fcntl(ends[0], F_SETOWN_EX, &owner) == 0);
  need(fcntl(ends[0], F_SETSIG, owned_signal) == 0 && fcntl(ends[0], F_SETFL, O_ASYNC) == 0);
  need(write(ends[1], "x", 1) == 1);
  close(ends[0]), close(ends[1]);
  owned_step = 1;
  wait_until(owned_step == 2);
  struct signalfd_siginfo info;
  say("the owner reads %s", result(read(owned_reader, &info, sizeof info)));
  say("code %d, then %s", info.ssi_code, result(read(owned_reader, &info, sizeof info)));
  return unused;
}
/* At the host, a standard signal would be one with another that is pending: CAVEATS. */
static void own_signal(int signal) {
  owned_signal = signal;
  owned_step = 0;
  owned_reader = descriptor(signal, 0, SFD_NONBLOCK);
  if (signal >= SIGRTMIN) kill(getpid(), signal);
  pthread_t thread = start(own_a_pipe, NULL);
  wait_until(owned_step == 1);
  struct signalfd_siginfo info;
  say("another reads %s", result(read(owned_reader, &info, sizeof info)));
  say("and then %s", result(read(owned_reader, &info, sizeof info)));
  install(signal, note_it);
  handled = 0;
  sigset_t set = set_of(signal, 0);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  say("unblocked elsewhere: handled %d", handled);
  owned_step = 2;
  finish(thread);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  close(owned_reader);
}
/* The only thread finds them where it finds all others. */
static void own_alone(int signal) {
  int ends[2], reader = descriptor(signal, 0, SFD_NONBLOCK);
  struct f_owner_ex owner = {F_OWNER_TID, gettid()};
  struct signalfd_siginfo info[3];
  need(pipe(ends) == 0 && fcntl(ends[0], F_SETOWN_EX, &owner) == 0 && fcntl(ends[0], F_SETFL, O_ASYNC) == 0);
  need(signal == SIGIO || fcntl(ends[0], F_SETSIG, signal) == 0);
  need(write(ends[1], "x", 1) == 1 && write(ends[1], "x", 1) == 1);
  say("alone %s", result(read(reader, info, sizeof info)));
  close(ends[0]), close(ends[1]), close(reader);
}
/* A thread that was joined is still one of the process's until it is gone. */
static bool is_alone(void) {
  FILE *status = fopen("/proc/self/status", "r");
  char line[256];
  int threads = 0;
  while (fgets(line, sizeof line, status)) sscanf(line, "Threads: %d", &threads);
  fclose(status);
  return threads == 1;
}
CASE(of_a_descriptor_that_the_only_thread_owns) {
  wait_until(is_alone());
  own_alone(SIGIO);
  own_alone(SIGUSR1);
  own_alone(SIGRTMIN + 7);
}
CASE(of_a_descriptor_that_a_thread_owns) {
  own_signal(SIGUSR1);
  own_signal(SIGRTMIN + 7);
}
