/* A writer that blocks whenever its pipe is full, and a reader that reads only in the handler of SIGIO: were one signal
 * lost, both would wait for ever. */
#include "../check.h"
#include <fcntl.h>
#include <sys/select.h>

enum { PAGE = 4096, PAGES = 300 };

static int from;
static volatile long got;
static char in[PAGE], out[PAGE];

static void on_io(int signal) {
  (void)signal;
  int saved = errno;
  ssize_t n;
  while ((n = read(from, in, PAGE)) > 0) got += n;
  need(n == 0 || errno == EAGAIN);
  errno = saved;
}

/* The writer begins when the reader has asked for signals. */
static pid_t start_writer(int data[2]) {
  int go[2];
  need(pipe(data) == 0 && pipe(go) == 0 && fcntl(data[1], F_SETPIPE_SZ, PAGE) > 0);
  pid_t child = fork();
  need(child >= 0);
  if (child == 0) {
    close(data[0]);
    need(read(go[0], in, 1) == 1);
    for (int i = 0; i < PAGES; i++) need(write(data[1], out, PAGE) == PAGE);
    _exit(0);
  }
  close(data[1]);
  need(fcntl(data[0], F_SETOWN, getpid()) == 0);
  need(fcntl(data[0], F_SETFL, O_RDONLY | O_ASYNC | O_NONBLOCK) == 0);
  need(write(go[1], "", 1) == 1 && close(go[0]) == 0 && close(go[1]) == 0);
  return child;
}

static void stream(void (*await)(const sigset_t *open)) {
  struct sigaction action = {.sa_handler = on_io, .sa_flags = SA_RESTART};
  sigset_t io, open;
  sigemptyset(&io);
  sigaddset(&io, SIGIO);
  need(sigaction(SIGIO, &action, NULL) == 0 && sigprocmask(SIG_BLOCK, &io, &open) == 0);
  int data[2], status;
  pid_t writer = start_writer(data);
  got = 0;
  from = data[0];
  while (got < (long)PAGE * PAGES) await(&open);
  /* SIGIO of the end of the file may interrupt this. */
  while (waitpid(writer, &status, 0) < 0) need(errno == EINTR);
  say("%ld bytes, the writer's status %d", got, status);
  need(sigprocmask(SIG_SETMASK, &open, NULL) == 0 && close(data[0]) == 0);
}

static void suspend(const sigset_t *open) { sigsuspend(open); }
static void select_nothing(const sigset_t *open) { pselect(0, NULL, NULL, NULL, NULL, open); }
static void compute(const sigset_t *open) {
  need(sigprocmask(SIG_SETMASK, open, NULL) == 0);
  while (got < (long)PAGE * PAGES) {}
}

CASE(sigsuspend) { stream(suspend); }
CASE(pselect) { stream(select_nothing); }
CASE(computing) { stream(compute); }
