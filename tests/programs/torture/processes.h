/* Processes: children that find what their parent had, programs that find what they were given. */
#ifndef PROCESSES_H
#define PROCESSES_H

#include "lives.h"
#include "timers.h"
#include "waits.h"
#include <spawn.h>
#include <sys/wait.h>

enum { PROCESSES_MAX = 3 };

extern char **environ;
static atomic_int processes;

static bool may_have_process(void) {
  if (atomic_fetch_add(&processes, 1) < PROCESSES_MAX) return true;
  atomic_fetch_sub(&processes, 1);
  return false;
}

static void *live_in_child(void *argument) {
  struct worker self = {.index = 1002, .tid = gettid(), .random = (uint64_t)(uintptr_t)argument | 1, .activity = "child"};
  me = &self;
  hold_over_computation();
  sched_yield();
  hold_over_call();
  me = NULL;
  return argument;
}

/* What the parent's thread had is here, and a thread can be made; then the parcel is sent. */
static _Noreturn void be_child(pid_t parent, int fd, uint64_t key, size_t size) {
  atomic_store(&me->activity, "process");
  long before = atomic_load(&corruptions);
  check(getpid() != parent && getppid() == parent, "a child of %d is %d of %d", parent, getpid(), getppid());
  check(gettid() == getpid(), "a child has the tid %d and the pid %d", gettid(), getpid());
  look_at_tls();
  for (int i = 0; i < BLOCKS; i++)
    if (blocks[i]) check_block(blocks[i]);
  hold_over_computation();
  pthread_t thread;
  void *value = NULL, *given = (void *)(uintptr_t)(key | 2);
  int error = pthread_create(&thread, NULL, live_in_child, given);
  check(error == 0 || error == EAGAIN, "pthread_create answered %d", error);
  if (error == 0) check(pthread_join(thread, &value) == 0 && value == given, "a child's thread answered %p", value);
  signal_myself();
  uint8_t *bytes = malloc(size);
  if (bytes) {
    lay_out(bytes, size, key);
    write_all(fd, bytes, size);
  }
  _exit(atomic_load(&corruptions) == before ? 77 : 99);
}

static void wait_for_process(pid_t pid, int expected) {
  int status = 0;
  pid_t answer;
  while ((answer = waitpid(pid, &status, 0)) < 0 && errno == EINTR) {}
  check(answer == pid, "waitpid of %d answered %d, %d", pid, answer, errno);
  check(WIFEXITED(status) && WEXITSTATUS(status) == expected, "process %d ended with %#x", pid, status);
}

static void fork_child(void) {
  int ends[2];
  if (!may_have_process()) return;
  if (pipe2(ends, O_CLOEXEC) == 0) {
    uint64_t key = next_random(&me->random);
    size_t size = 1 + dice(100000);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) be_child(parent, ends[1], key, size);
    check(pid > 0 || errno == EAGAIN, "fork answered %d", errno);
    close(ends[1]);
    if (pid > 0) {
      read_all(ends[0], size, key);
      wait_for_process(pid, 77);
    }
    close(ends[0]);
  }
  atomic_fetch_sub(&processes, 1);
}

/* The program that `run_program` starts: it has what it was given, and sends what its key says. */
static int be_program(char **argv) {
  struct worker self = {.index = 1003, .tid = gettid(), .activity = "program"};
  uint64_t key = strtoull(argv[2], NULL, 10);
  size_t size = strtoull(argv[3], NULL, 10);
  self.random = key | 1;
  me = &self;
  choose_hold();
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  check(sigismember(&mask, SIGUSR2) && !sigismember(&mask, SIGUSR1), "the mask is another");
  struct sigaction action;
  check(sigaction(SIGUSR1, NULL, &action) == 0 && action.sa_handler == SIG_DFL, "a handler is still there");
  struct itimerval time;
  for (int timer = ITIMER_REAL; timer <= ITIMER_PROF; timer++)
    check(getitimer(timer, &time) == 0 && time.it_value.tv_sec == 0 && time.it_value.tv_usec == 0, "timer %d runs", timer);
  hold_over_computation();
  uint8_t *bytes = malloc(size);
  if (!bytes) return 98;
  lay_out(bytes, size, key);
  write_all(1, bytes, size);
  return atomic_load(&corruptions) ? 99 : 76;
}

/* By fork and exec, or by posix_spawn (vfork): SIGUSR2 is blocked there, its output is a pipe. */
static pid_t start_program(char **argv, int out) {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  sigaddset(&mask, SIGUSR2);
  if (dice(2)) {
    pid_t pid = fork();
    if (pid != 0) return pid;
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    dup2(out, 1);
    execv("/proc/self/exe", argv);
    _exit(97);
  }
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  pid_t pid = -1;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &mask);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  int error = posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, argv, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  errno = error;
  return error == 0 ? pid : -1;
}

static void run_program(void) {
  int ends[2];
  if (!may_have_process()) return;
  if (pipe2(ends, O_CLOEXEC) == 0) {
    uint64_t key = next_random(&me->random);
    size_t size = 1 + dice(100000);
    char key_text[32], size_text[32];
    snprintf(key_text, sizeof key_text, "%llu", (unsigned long long)key);
    snprintf(size_text, sizeof size_text, "%zu", size);
    pid_t pid = start_program((char *[]){"torture", "program", key_text, size_text, NULL}, ends[1]);
    check(pid > 0 || errno == EAGAIN, "no program: %d", errno);
    close(ends[1]);
    if (pid > 0) {
      read_all(ends[0], size, key);
      wait_for_process(pid, 76);
    }
    close(ends[0]);
  }
  atomic_fetch_sub(&processes, 1);
}

static void run_shell(void) {
  if (!may_have_process()) return;
  int status = system("exit 7");
  check(WIFEXITED(status) && WEXITSTATUS(status) == 7, "system answered %#x, %d", status, errno);
  atomic_fetch_sub(&processes, 1);
}

#endif
