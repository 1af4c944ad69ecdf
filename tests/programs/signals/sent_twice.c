//@ seconds: 60
/* Signals that the process and another one have sent while they were blocked: one of each kind is pending, with what the first
 * sender said; a stop signal voids SIGCONT, and the other way round. In processes with one thread and with two. */
#include "../check.h"
#include <poll.h>
#include <sys/signalfd.h>

/* Who sends: the process itself, the thread to itself, another process. */
enum { PROCESS, THREAD, OTHER, SENDERS };
static const char *const senders[] = {"process", "thread", "other"};
static int to_helper[2], from_helper[2];
static bool has_two;

/* Sends the subject what it asks for, for as long as that lives. */
static void help(pid_t subject) {
  close(to_helper[1]), close(from_helper[0]);
  for (int signal; read(to_helper[0], &signal, sizeof signal) == sizeof signal;) {
    union sigval value = {.sival_int = 7};
    need(sigqueue(subject, signal, value) == 0 && write(from_helper[1], "", 1) == 1);
  }
  _exit(0);
}

static void send_by(int who, int signal) {
  union sigval value = {.sival_int = 1};
  char byte;
  switch (who) {
  case PROCESS: need(sigqueue(getpid(), signal, value) == 0); break;
  case THREAD: need(raise(signal) == 0); break;
  default:
    need(write(to_helper[1], &signal, sizeof signal) == sizeof signal && read(from_helper[0], &byte, 1) == 1);
    /* That it was sent is known from a pipe. With several threads, and one of real time, it is certain to have come only after this. */
    if (has_two || signal >= SIGRTMIN) need(sigpending(&(sigset_t){0}) == 0);
  }
}

/* Blocks all signals. */
static void *idle(void *stop) {
  while (!atomic_load((atomic_int *)stop)) usleep(1000);
  return NULL;
}

static int runs, values[8];
static void count(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  if (runs < COUNT(values)) values[runs] = info->si_code == SI_TKILL ? 2 : info->si_value.sival_int;
  runs++;
}
static void handle(int signal) {
  struct sigaction action = {.sa_sigaction = count, .sa_flags = SA_SIGINFO | SA_RESTART};
  need(sigaction(signal, &action, NULL) == 0);
}
static sigset_t set_of(int first, int second) {
  sigset_t set;
  sigemptyset(&set), sigaddset(&set, first);
  if (second) sigaddset(&set, second);
  return set;
}

/* Runs a body in a process of its own, with a helper, in a group that is not orphaned; says how often it stopped, and its end. */
static void in_subject(const char *what, bool two, void (*body)(char *text)) {
  has_two = two;
  need(pipe(to_helper) == 0 && pipe(from_helper) == 0);
  pid_t subject = fork();
  need(subject != -1);
  if (subject == 0) {
    need(setpgid(0, 0) == 0);
    pid_t subject_id = getpid(), helper = fork();
    need(helper != -1);
    if (helper == 0) help(subject_id);
    char text[200] = "";
    atomic_int stop = 0;
    pthread_t other;
    if (two) {
      sigset_t all, before;
      sigfillset(&all);
      need(sigprocmask(SIG_SETMASK, &all, &before) == 0);
      other = start(idle, &stop);
      need(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
    }
    body(text);
    if (two) atomic_store(&stop, 1), finish(other);
    say("%s%s:%s", what, two ? ", two threads" : "", text);
    _exit(0);
  }
  close(to_helper[0]), close(to_helper[1]), close(from_helper[0]), close(from_helper[1]);
  int status, stops = 0;
  while (waitpid(subject, &status, WUNTRACED) == subject && WIFSTOPPED(status)) {
    stops++;
    kill(subject, SIGCONT);
  }
  if (stops || status) say("%s: stopped %d times, %s", what, stops, ended(status));
}

static int first_signal, second_signal, first_sender, second_sender, way;

/* What is pending of the two. */
static void pending(char *text) {
  sigset_t set;
  need(sigpending(&set) == 0);
  sprintf(text + strlen(text), " pending%s%s", sigismember(&set, first_signal) ? " first" : "",
          second_signal != first_signal && sigismember(&set, second_signal) ? " second" : "");
}

static void both(char *text) {
  sigset_t set = set_of(first_signal, second_signal);
  need(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
  send_by(first_sender, first_signal);
  send_by(second_sender, second_signal);
  pending(text);
  need(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
}

/* Stops and SIGCONT, both blocked. */
CASE(stop_and_continue) {
  for (int two = 0; two < 2; two++)
    for (int k = 0; k < 2; k++)
      for (first_sender = 0; first_sender < SENDERS; first_sender++)
        for (second_sender = 0; second_sender < SENDERS; second_sender++) {
          first_signal = k ? SIGCONT : SIGTSTP, second_signal = k ? SIGTSTP : SIGCONT;
          char what[60];
          sprintf(what, "%s by %s, then %s by %s", sigabbrev_np(first_signal), senders[first_sender], sigabbrev_np(second_signal),
                  senders[second_sender]);
          in_subject(what, two, both);
        }
}

/* SIGCONT, which is not blocked, does nothing but void a stop. */
static void stop_is_void(char *text) {
  sigset_t set = set_of(SIGTSTP, 0);
  need(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
  send_by(first_sender, SIGTSTP);
  send_by(second_sender, SIGCONT);
  if (way) pending(text);
  need(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
}
CASE(stop_is_voided) {
  first_signal = SIGTSTP, second_signal = SIGCONT;
  for (int two = 0; two < 2; two++)
    for (way = 0; way < 2; way++)
      for (first_sender = 0; first_sender < SENDERS; first_sender++)
        for (second_sender = 0; second_sender < SENDERS; second_sender++) {
          char what[60];
          sprintf(what, "TSTP by %s, then CONT by %s", senders[first_sender], senders[second_sender]);
          in_subject(what, two, stop_is_void);
        }
}

/* The ways to let a signal through that is blocked. */
enum { UNBLOCK, SUSPEND, PPOLL, EPOLL, WAIT, DESCRIPTOR, RETURN, WAYS };
static const char *const ways[] = {"unblock", "sigsuspend", "ppoll", "ppoll with time", "sigwait", "signalfd", "a handler returns"};

static void twice_inside(int signal) {
  send_by(first_sender, signal);
  send_by(second_sender, signal);
}
static int to_send;
static void send_both(int signal) {
  (void)signal;
  twice_inside(to_send);
}

static void twice(char *text) {
  sigset_t set = set_of(to_send = first_signal, 0), none;
  sigemptyset(&none);
  handle(to_send);
  if (way == RETURN) {
    struct sigaction action = {.sa_handler = send_both, .sa_mask = set};
    need(sigaction(SIGUSR2, &action, NULL) == 0 && raise(SIGUSR2) == 0);
  } else {
    need(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    twice_inside(to_send);
  }
  struct timespec at_once = {0, 0}, soon = {0, 1000000};
  int fd;
  switch (way) {
  case SUSPEND: sigsuspend(&none); break;
  case PPOLL: ppoll(NULL, 0, &at_once, &none); break;
  case EPOLL: ppoll(NULL, 0, &soon, &none); break;
  case WAIT:
    for (siginfo_t info; sigtimedwait(&set, &info, &at_once) == to_send;) count(to_send, &info, NULL);
    break;
  case DESCRIPTOR:
    need((fd = signalfd(-1, &set, SFD_NONBLOCK)) >= 0);
    for (struct signalfd_siginfo info; read(fd, &info, sizeof info) == sizeof info; runs++)
      values[runs] = info.ssi_code == SI_TKILL ? 2 : info.ssi_int;
    close(fd);
  }
  sprintf(text, " %d", runs);
  for (int i = 0; i < runs; i++) sprintf(text + strlen(text), " (%d)", values[i]);
  need(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
  sprintf(text + strlen(text), " then %d", runs);
  for (int i = 0; i < runs; i++) sprintf(text + strlen(text), " (%d)", values[i]);
}

static void in_all_ways(int signal) {
  first_signal = second_signal = signal;
  for (int two = 0; two < 2; two++)
    for (way = 0; way < WAYS; way++)
      for (first_sender = 0; first_sender < SENDERS; first_sender++)
        for (second_sender = 0; second_sender < SENDERS; second_sender++) {
          /* In a process of one thread a descriptor reads one of both. */
          if (way == DESCRIPTOR && (first_sender == THREAD) != (second_sender == THREAD)) continue;
          char what[80];
          sprintf(what, "%s, by %s and %s", ways[way], senders[first_sender], senders[second_sender]);
          in_subject(what, two, twice);
        }
}
CASE(standard) { in_all_ways(SIGUSR1); }
CASE(of_real_time) { in_all_ways(SIGRTMIN + 3); }
