/* A thread whose timers may be late for ever makes, executes and awaits processes as any other. */
#include "../check.h"
#include <spawn.h>
#include <sys/prctl.h>

/* Others keep the processors busy, so that whoever waits for another host thread waits long. */
static pid_t busy[4];
static void begin_load(void) {
  for (int i = 0; i < COUNT(busy); i++) {
    busy[i] = fork();
    need(busy[i] >= 0);
    if (busy[i] == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) {}
    }
  }
}
static void end_load(void) {
  for (int i = 0; i < COUNT(busy); i++) need(kill(busy[i], SIGKILL) == 0 && waitpid(busy[i], NULL, 0) == busy[i]);
}

static void be_late(void) { need(prctl(PR_SET_TIMERSLACK, ~0UL >> 1) == 0); }

static void *fail(void *unused) {
  be_late();
  for (int i = 0; i < 100; i++) need(syscall(SYS_execve, "/bin/true", 8, NULL) == -1 && errno == EFAULT);
  return unused;
}
/* Many at once wait for each other. */
CASE(programs_that_are_refused) {
  begin_load();
  pthread_t threads[8];
  for (int i = 0; i < COUNT(threads); i++) threads[i] = start(fail, NULL);
  for (int i = 0; i < COUNT(threads); i++) finish(threads[i]);
  say("all refused");
  end_load();
}

static void *succeed(void *unused) {
  be_late();
  char *const arguments[] = {"true", NULL};
  for (int i = 0; i < 20; i++) {
    pid_t child = i % 2 ? fork() : vfork();
    if (child == 0) {
      execv("/bin/true", arguments);
      _exit(1);
    }
    pid_t other;
    int status, another;
    need(posix_spawn(&other, "/bin/true", NULL, NULL, arguments, environ) == 0);
    need(waitpid(child, &status, 0) == child && waitpid(other, &another, 0) == other);
    need(status == 0 && another == 0);
  }
  return unused;
}
CASE(programs_that_end) {
  begin_load();
  pthread_t threads[4];
  for (int i = 0; i < COUNT(threads); i++) threads[i] = start(succeed, NULL);
  for (int i = 0; i < COUNT(threads); i++) finish(threads[i]);
  say("all ended well");
  end_load();
}
