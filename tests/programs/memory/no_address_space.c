//@ cpus: default
/* A process that may map nothing any more still forks, and its child is a process like any other. */
#include "../check.h"
#include <sys/resource.h>

static void *add(void *number) { return (char *)number + 1; }

CASE(fork) {
  struct rlimit limit = {1 << 20, RLIM_INFINITY};
  need(getrlimit(RLIMIT_AS, &limit) == 0);
  limit.rlim_cur = 1 << 20;
  need(setrlimit(RLIMIT_AS, &limit) == 0);
  for (int i = 0; i < 3; i++) {
    int status;
    pid_t child = fork();
    if (child == 0) {
      say("child, page %s", result(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0));
      pthread_t thread;
      say("thread %s", errname(pthread_create(&thread, NULL, add, NULL)));
      usleep(1000);
      say("mask %d", sigprocmask(SIG_BLOCK, NULL, NULL));
      _exit(3 + i);
    }
    need(child > 0 && waitpid(child, &status, 0) == child);
    say("ended %d with %d", WIFEXITED(status), WEXITSTATUS(status));
  }
  limit.rlim_cur = limit.rlim_max;
  need(setrlimit(RLIMIT_AS, &limit) == 0);
}
