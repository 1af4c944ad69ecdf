/* A process with one thread opens a FIFO and waits for the other end: what ends the wait, and what does not. */
#include "../check.h"
#include <sys/stat.h>
#include <sys/time.h>

static char path[64];
static atomic_int handled;
static void count(int signo) { (void)signo, handled++; }

static void handle(int signo, int flags) {
  need(sigaction(signo, &(struct sigaction){.sa_handler = count, .sa_flags = flags}, NULL) == 0);
}

static void make_fifo(const char *name) {
  snprintf(path, sizeof path, "/tmp/fifo_alone.%s.%d", name, getpid());
  unlink(path);
  need(mkfifo(path, 0600) == 0);
}

/* A child that opens the FIFO, and says what it has found. */
static pid_t opener(int flags, int handler_flags) {
  pid_t child = fork();
  if (child != 0) return child;
  handled = 0;
  handle(SIGUSR1, handler_flags);
  int fd = open(path, flags);
  char text[8] = "nothing";
  if (fd >= 0 && flags == O_RDONLY) need(read(fd, text, sizeof text) >= 0);
  if (fd >= 0 && flags == O_WRONLY) need(write(fd, "child", 6) == 6);
  say("%s, %s, handled %d", fd < 0 ? strerrorname_np(errno) : "open", text, handled);
  fflush(stdout);
  _exit(0);
}

static void is_over(pid_t child) {
  int status;
  need(waitpid(child, &status, 0) == child);
  say("%s", ended(status));
  unlink(path);
}

/* Writes to a child that reads. */
static void write_to(pid_t child) {
  int fd = open(path, O_WRONLY);
  need(fd >= 0 && write(fd, "parent", 7) == 7);
  is_over(child);
}

static void signal_it(pid_t child, int signo) {
  wait_until(state_of(child) == 'S');
  need(kill(child, signo) == 0);
}

CASE(opened_by_writer) {
  make_fifo("w");
  pid_t child = opener(O_RDONLY, SA_RESTART);
  wait_until(state_of(child) == 'S');
  write_to(child);
}

CASE(opened_by_reader) {
  make_fifo("r");
  pid_t child = opener(O_WRONLY, SA_RESTART);
  wait_until(state_of(child) == 'S');
  int fd = open(path, O_RDONLY);
  char text[8] = "";
  need(fd >= 0 && read(fd, text, sizeof text) == 6);
  is_over(child);
  say("read %s", text);
}

CASE(goes_on_after_signals) {
  make_fifo("s");
  pid_t child = opener(O_RDONLY, SA_RESTART);
  signal_it(child, SIGUSR1);
  signal_it(child, SIGCONT);
  signal_it(child, SIGWINCH);
  signal_it(child, SIGSTOP);
  wait_until(state_of(child) == 'T');
  need(kill(child, SIGCONT) == 0);
  wait_until(state_of(child) == 'S');
  write_to(child);
}

CASE(ended_by_a_signal) {
  make_fifo("e");
  pid_t child = opener(O_WRONLY, 0);
  signal_it(child, SIGUSR1);
  is_over(child);
}

CASE(killed) {
  make_fifo("k");
  pid_t child = opener(O_RDONLY, 0);
  signal_it(child, SIGTERM);
  is_over(child);
}

/* Its own timer of CPU time ticks, but takes no time. */
CASE(ended_by_its_own_alarm) {
  make_fifo("a");
  handle(SIGALRM, 0);
  struct itimerval hour = {{0, 0}, {3600, 0}}, soon = {{0, 20000}, {0, 20000}}, never = {0};
  need(setitimer(ITIMER_PROF, &hour, NULL) == 0 && setitimer(ITIMER_REAL, &soon, NULL) == 0);
  int fd = open(path, O_RDONLY);
  say("%d, %s, handled: %s", fd, strerrorname_np(errno), handled > 0 ? "yes" : "no");
  need(setitimer(ITIMER_PROF, &never, NULL) == 0 && setitimer(ITIMER_REAL, &never, NULL) == 0);
  unlink(path);
}

/* One end writes a word, the other reads it and the end. */
static void meet(const char *fifo, bool writes) {
  int fd = open(fifo, writes ? O_WRONLY : O_RDONLY);
  char text[4] = "";
  need(fd >= 0);
  if (writes) need(write(fd, "abc", 4) == 4);
  else need(read(fd, text, 4) == 4 && strcmp(text, "abc") == 0 && read(fd, text, 4) == 0);
  close(fd);
}

/* Two processes that open one end each at the same time always meet. */
CASE(rendezvous) {
  char there[sizeof path];
  make_fifo("there");
  strcpy(there, path);
  make_fifo("back");
  pid_t child = fork();
  for (int i = 0; i < 300; i++) {
    meet(there, child != 0);
    meet(path, child == 0);
  }
  if (child == 0) _exit(0);
  unlink(there);
  is_over(child);
}
