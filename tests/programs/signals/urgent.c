/* SIGURG, which tools use for requests: a program that blocks it, or has a descriptor or a handler for it, gets those of others as
 * natively, however old its process is. */
#include "../check.h"
#include <sys/signalfd.h>

static volatile sig_atomic_t handled;

static void handle(int sig) { handled += sig == SIGURG; }

/* A child sends it `times` times and ends. */
static void send_from_child(int times) {
  pid_t parent = getpid(), child = fork();
  if (child == 0) {
    for (int i = 0; i < times; i++) need(kill(parent, SIGURG) == 0);
    _exit(0);
  }
  int status;
  need(waitpid(child, &status, 0) == child && status == 0);
}

static bool is_pending(void) {
  sigset_t pending;
  need(sigpending(&pending) == 0);
  return sigismember(&pending, SIGURG);
}

static sigset_t blocked(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGURG);
  need(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
  return set;
}

static void take(const sigset_t *set) {
  siginfo_t info;
  struct timespec none = {0, 0};
  int sig = sigtimedwait(set, &info, &none);
  say("taken %d %s", sig, sig > 0 ? info.si_code == SI_USER ? "from kill" : "else" : errname(errno));
}

/* Each part in a process of its own: a young one, and one that has been there for a while. */
static void both(void (*part)(void)) {
  for (int ms = 0; ms <= 20; ms += 20) {
    pid_t child = fork();
    if (child == 0) {
      sleep_ms(ms);
      part();
      _exit(0);
    }
    int status;
    need(waitpid(child, &status, 0) == child);
    say("%s", ended(status));
  }
}

static void stays_pending(void) {
  sigset_t set = blocked();
  send_from_child(2);
  say("pending %d", is_pending());
  take(&set);
  say("pending %d", is_pending());
  take(&set);
}
CASE(blocked_it_stays_pending) { both(stays_pending); }

static void discarded(void) {
  send_from_child(1);
  sigset_t set = blocked();
  say("pending %d", is_pending());
  send_from_child(1);
  say("pending %d", is_pending());
  need(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
  blocked();
  say("pending %d", is_pending());
}
CASE(by_default_it_is_discarded) { both(discarded); }

static void reaches_handler(void) {
  sigset_t set = blocked();
  send_from_child(1);
  signal(SIGURG, handle);
  say("handled %d", (int)handled);
  need(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
  say("handled %d", (int)handled);
  send_from_child(1);
  say("handled %d", (int)handled);
}
CASE(a_handler_gets_it) { both(reaches_handler); }

static void is_read(void) {
  sigset_t set = blocked();
  struct signalfd_siginfo info;
  int fd = signalfd(-1, &set, SFD_NONBLOCK);
  need(fd >= 0);
  say("read %zd", read(fd, &info, sizeof info));
  send_from_child(1);
  ssize_t length = read(fd, &info, sizeof info);
  say("read %zd, %d", length, (int)info.ssi_signo);
  say("read %zd", read(fd, &info, sizeof info));
}
CASE(a_descriptor_reads_it) { both(is_read); }

static void is_awaited(void) {
  sigset_t set = blocked();
  pid_t parent = getpid(), child = fork();
  if (child == 0) {
    sleep_ms(20);
    kill(parent, SIGURG);
    _exit(0);
  }
  siginfo_t info;
  say("%d", sigwaitinfo(&set, &info));
  need(waitpid(child, NULL, 0) == child);
}
CASE(it_is_awaited) { both(is_awaited); }
