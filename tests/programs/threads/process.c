/* How a process with threads forks, starts others, and ends. */
#include "../check.h"
#include <spawn.h>

extern char **environ;

static atomic_bool stop;

static void *spin(void *unused) {
  while (!stop) {}
  return unused;
}

static void *work_and_sleep(void *unused) {
  while (!stop) {
    free(malloc(1000));
    usleep(50);
  }
  return unused;
}

static pthread_t background[4];
static void start_background(void) {
  stop = false;
  for (int i = 0; i < 4; i++) background[i] = start(i % 2 ? spin : work_and_sleep, NULL);
}
static void end_background(void) {
  stop = true;
  for (int i = 0; i < 4; i++) finish(background[i]);
}

static void end_child(const char *what, pid_t child) {
  int status;
  need(waitpid(child, &status, 0) == child);
  say("%s: %s", what, ended(status));
}

static void *square(void *value) { return (void *)((intptr_t)value * (intptr_t)value); }

/* The child has one thread, and may start others. */
CASE(fork_among_threads) {
  start_background();
  for (int i = 0; i < 30; i++) {
    pid_t child = fork();
    need(child != -1);
    if (child == 0) {
      must(gettid() == getpid());
      void *place = malloc(5000);
      free(place);
      intptr_t sum = 0;
      for (intptr_t j = 1; j <= 4; j++) sum += (intptr_t)finish(start(square, (void *)j));
      _exit((int)sum);
    }
    int status;
    must(waitpid(child, &status, 0) == child);
    must(WIFEXITED(status) && WEXITSTATUS(status) == 30);
  }
  end_background();
  say("30 children");
}

static void *fork_here(void *unused) {
  (void)unused;
  pid_t parent = getpid(), child = fork();
  if (child == 0) _exit(getppid() == parent && gettid() == getpid() ? 3 : 4);
  int status;
  must(waitpid(child, &status, 0) == child);
  return (void *)(intptr_t)WEXITSTATUS(status);
}

CASE(fork_by_another_thread) {
  pthread_t threads[6];
  for (int i = 0; i < 6; i++) threads[i] = start(fork_here, NULL);
  for (int i = 0; i < 6; i++) say("child %ld", (long)(intptr_t)finish(threads[i]));
}

static int prepared, in_parent, in_forked;
static void before(void) { prepared++; }
static void after_in_parent(void) { in_parent++; }
static void after_in_child(void) { in_forked++; }

CASE(fork_handlers) {
  pthread_atfork(before, after_in_parent, after_in_child);
  pid_t child = fork();
  if (child == 0) _exit(prepared * 100 + in_parent * 10 + in_forked);
  end_child("handlers run in the child", child);
  say("handlers run in the parent %d", prepared * 100 + in_parent * 10 + in_forked);
}

CASE(fork_of_a_fork) {
  pid_t child = fork();
  if (child == 0) {
    pid_t grandchild = fork();
    if (grandchild == 0) _exit((int)(intptr_t)finish(start(square, (void *)5)));
    int status;
    waitpid(grandchild, &status, 0);
    _exit(WEXITSTATUS(status) + 1);
  }
  end_child("grandchild's status and one", child);
}

CASE(commands) {
  start_background();
  say("true %s", ended(system("true")));
  say("exit 7: %s", ended(system("exit 7")));
  say("killed %s", ended(system("kill -TERM $$")));
  FILE *stream = popen("echo one; echo two; sed s/a/b/", "w");
  need(stream);
  fflush(stdout);
  fputs("banana\n", stream);
  say("pclose %s", ended(pclose(stream)));
  stream = popen("seq 1 20000 | tail -n 1", "r");
  char line[64] = "";
  need(fgets(line, sizeof line, stream));
  line[strcspn(line, "\n")] = 0;
  say("last line %s", line);
  say("pclose %s", ended(pclose(stream)));
  end_background();
}

CASE(spawn) {
  start_background();
  for (int i = 0; i < 20; i++) {
    char *arguments[] = {"sh", "-c", i % 2 ? "exit 5" : "kill -KILL $$", NULL};
    pid_t child;
    int status;
    need(posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ) == 0);
    must(waitpid(child, &status, 0) == child);
    must(i % 2 ? WIFEXITED(status) && WEXITSTATUS(status) == 5 : WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }
  pid_t child;
  char *arguments[] = {"x", NULL};
  say("missing %s", errname(posix_spawn(&child, "/nowhere/x", NULL, NULL, arguments, environ)));
  say("not executable %s", errname(posix_spawn(&child, "/etc/passwd", NULL, NULL, arguments, environ)));
  end_background();
}

CASE(vfork_and_exec) {
  start_background();
  for (int i = 0; i < 10; i++) {
    pid_t child = vfork();
    if (child == 0) {
      execl("/bin/sh", "sh", "-c", "exit 6", (char *)NULL);
      _exit(127);
    }
    int status;
    must(waitpid(child, &status, 0) == child);
    must(WIFEXITED(status) && WEXITSTATUS(status) == 6);
  }
  end_background();
  say("done");
}

static void exec_with_threads(void) {
  start_background();
  execl("/bin/sh", "sh", "-c", "exit 9", (char *)NULL);
}

static void *exec_here(void *unused) {
  (void)unused;
  execl("/bin/sh", "sh", "-c", "exit 10", (char *)NULL);
  return NULL;
}

static void exec_by_another(void) {
  start_background();
  finish(start(exec_here, NULL));
}

CASE(exec_among_threads) {
  in_child("by the first thread", exec_with_threads);
  in_child("by another thread", exec_by_another);
}

static void *end_process(void *status) { exit((int)(intptr_t)status); }

static void exit_by_another(void) {
  start_background();
  finish(start(end_process, (void *)21));
}

static void *end_process_at_once(void *status) { _exit((int)(intptr_t)status); }

static void quick_exit_by_another(void) {
  start_background();
  finish(start(end_process_at_once, (void *)22));
}

static void return_from_main(void) {
  start_background();
  exit(23);
}

static void *outlive_main(void *unused) {
  (void)unused;
  settle();
  say("the last thread goes on");
  return NULL;
}

static void exit_main_thread(void) {
  start(outlive_main, NULL);
  pthread_exit(NULL);
}

static void *outlive_and_exit(void *unused) {
  (void)unused;
  settle();
  exit(24);
}

static void exit_main_thread_then_status(void) {
  start(outlive_and_exit, NULL);
  pthread_exit(NULL);
}

CASE(ends) {
  in_child("exit by another thread", exit_by_another);
  in_child("_exit by another thread", quick_exit_by_another);
  in_child("exit among threads", return_from_main);
  in_child("pthread_exit of the first thread", exit_main_thread);
  in_child("pthread_exit of the first thread, then exit", exit_main_thread_then_status);
}

static void first_handler(void) { say("first registered, last run"); }
static void last_handler(void) { say("last registered, first run; threads still work: %ld", (long)(intptr_t)finish(start(square, (void *)3))); }
static void register_and_exit(void) {
  atexit(first_handler);
  atexit(last_handler);
  start_background();
  exit(25);
}

CASE(exit_handlers) { in_child("end", register_and_exit); }
