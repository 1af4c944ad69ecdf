/* A child that asks to be traced stops for the signals that it gets, and for no others. */
#include "../check.h"
#include <sys/ptrace.h>
#include <sys/wait.h>

/* How many of the first stops of a child that raises SIGTRAP again and again have another reason. */
static int odd_stops(int wanted) {
  pid_t child = fork();
  if (child == 0) {
    need(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
    for (;;) raise(SIGTRAP);
  }
  int status, odd = 0;
  for (int stops = 0; stops < wanted; stops++) {
    need(waitpid(child, &status, 0) == child);
    odd += !WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP;
    /* Longer than a young process goes without a page. */
    if (stops % 8 == 4) usleep(2000);
    need(ptrace(PTRACE_CONT, child, NULL, NULL) == 0);
  }
  need(kill(child, SIGKILL) == 0);
  while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {}
  return odd;
}

static void *trace(void *unused) {
  int odd = 0;
  for (int i = 0; i < 20; i++) odd += odd_stops(24);
  say("%d odd stops", odd);
  return unused;
}

CASE(by_the_only_thread) { trace(NULL); }

CASE(by_another_thread) {
  pthread_t thread;
  need(pthread_create(&thread, NULL, trace, NULL) == 0 && pthread_join(thread, NULL) == 0);
}
