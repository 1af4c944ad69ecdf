/* A tracer whose children were made on another host thread than its requests come from: the host knows the one that made
 * the fork. And a tracee that has moved when it asks to be traced, or executes a program. */
#include "../realtime.h"
#include <sys/ptrace.h>

static volatile long shared_word = 5;
static atomic_bool stop;

/* The first and the last CPU that may be used, as `apart` has found them: the same, if there is one only. */
static int first, second;

typedef struct {
  pid_t pid;
  int go;
} tracee;

/* A child that waits for the word, and then asks to be traced and stops again and again. */
static tracee make_tracee(void) {
  int ends[2];
  need(pipe(ends) == 0);
  tracee child = {.pid = fork(), .go = ends[1]};
  need(child.pid != -1);
  if (child.pid == 0) {
    char byte;
    need(read(ends[0], &byte, 1) == 1);
    need(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
    for (;;) raise(SIGSTOP);
  }
  close(ends[0]);
  return child;
}

static void let_go(tracee child) { need(write(child.go, "", 1) == 1); }

/* The requests of one stop that are refused. Who could not go on is killed: nobody would ever see another stop. */
static int look(pid_t child) {
  int status, bad = 0;
  need(waitpid(child, &status, __WALL) == child);
  errno = 0;
  ptrace(PTRACE_PEEKDATA, child, (void *)&shared_word, NULL);
  bad += errno != 0;
  bad += ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_EXITKILL) != 0;
  if (ptrace(PTRACE_CONT, child, NULL, NULL) != 0) {
    bad++;
    kill(child, SIGKILL);
  }
  return bad;
}

static int look_often(pid_t child, int rounds) {
  int bad = 0;
  for (int i = 0; i < rounds; i++) bad += look(child);
  return bad;
}

static void end(tracee child) {
  int status;
  kill(child.pid, SIGKILL);
  need(waitpid(child.pid, &status, __WALL) == child.pid);
  say("child: %s", ended(status));
  close(child.go);
}

static void *spin(void *argument) {
  pin_to(first);
  *(atomic_bool *)argument = true;
  while (!stop) {}
  return NULL;
}

static int pipe_ends[2];
static void *wait_in_the_host(void *argument) {
  char byte;
  pin_to(first);
  need(read(pipe_ends[0], &byte, 1) == 1);
  return argument;
}

/* In a child, which begins on the first CPU. */
static void apart(void (*body)(void)) {
  int status;
  pid_t child = fork();
  need(child != -1);
  if (child == 0) {
    cpu_set_t set;
    need(sched_getaffinity(0, sizeof set, &set) == 0);
    first = first_cpu();
    for (int i = 0; i < CPU_SETSIZE; i++) {
      if (CPU_ISSET(i, &set)) second = i;
    }
    pin_to(first);
    body();
    exit(0);
  }
  need(waitpid(child, &status, 0) == child);
  if (status != 0) say("%s", ended(status));
}

static void idle(void) {
  tracee child = make_tracee();
  pin_to(second);
  settle();
  let_go(child);
  say("requests refused: %d", look_often(child.pid, 20));
  end(child);
}

CASE(its_host_thread_is_idle) { apart(idle); }

static void busy(void) {
  atomic_bool runs = false;
  tracee child = make_tracee();
  stop = false;
  pthread_t spinner = start(spin, &runs);
  pin_to(second);
  wait_until(runs);
  let_go(child);
  say("requests refused: %d", look_often(child.pid, 20));
  end(child);
  stop = true;
  finish(spinner);
}

CASE(its_host_thread_is_busy) { apart(busy); }

static void in_a_call(void) {
  need(pipe(pipe_ends) == 0);
  tracee child = make_tracee();
  pthread_t reader = start(wait_in_the_host, NULL);
  pin_to(second);
  settle();
  let_go(child);
  say("requests refused: %d", look_often(child.pid, 20));
  end(child);
  need(write(pipe_ends[1], "", 1) == 1);
  finish(reader);
}

CASE(its_host_thread_is_in_a_call) { apart(in_a_call); }

static void *trace_own(void *argument) {
  tracee child = make_tracee();
  let_go(child);
  int bad = look_often(child.pid, 5);
  *(atomic_bool *)argument = true;
  while (!stop) bad += look(child.pid);
  say("requests of the other refused: %d", bad);
  end(child);
  return NULL;
}

/* Another tracer has the host thread, and is at work there. */
static void shared(void) {
  atomic_bool runs = false;
  tracee child = make_tracee();
  stop = false;
  pthread_t other = start(trace_own, &runs);
  pin_to(second);
  wait_until(runs);
  let_go(child);
  say("requests refused: %d", look_often(child.pid, 20));
  stop = true;
  finish(other);
  end(child);
}

CASE(its_host_thread_is_another_tracers) { apart(shared); }

static void several(void) {
  tracee one = make_tracee();
  pin_to(second);
  settle();
  tracee two = make_tracee();
  let_go(two);
  int bad = look_often(two.pid, 5);
  let_go(one);
  for (int i = 0; i < 20; i++) bad += look(one.pid) + look(two.pid);
  say("requests refused: %d", bad);
  end(one);
  end(two);
}

CASE(several_children_of_several_host_threads) { apart(several); }

static void *request(void *argument) {
  say("another thread's tracee %s", result(ptrace(PTRACE_CONT, ((tracee *)argument)->pid, NULL, NULL)));
  return NULL;
}

static void not_its_own(void) {
  tracee child = make_tracee();
  let_go(child);
  say("requests refused: %d", look_often(child.pid, 5));
  finish(start(request, &child));
  end(child);
}

CASE(tracee_of_another_thread) { apart(not_its_own); }

/* Follows the child to its end; signals of the C library's own and of dispatch are passed on unseen. */
static void follow(pid_t child) {
  int status, trap = 0, bad = 0;
  for (;;) {
    need(waitpid(child, &status, __WALL) == child);
    if (!WIFSTOPPED(status)) break;
    int signal = WSTOPSIG(status);
    if (signal == SIGTRAP) trap++;
    bool pass = signal == SIGSYS || signal >= 32;
    bad += ptrace(PTRACE_CONT, child, NULL, pass ? (void *)(long)signal : NULL) != 0;
  }
  say("programs begun: %d, requests refused: %d, child: %s", trap, bad, ended(status));
}

static void executes(void) {
  pid_t child = fork();
  need(child != -1);
  if (child == 0) {
      need(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
    pin_to(second);
    settle();
    execl("/bin/sh", "sh", "-c", "exec /bin/sh -c 'exit 3'", NULL);
    _exit(127);
  }
  follow(child);
}

CASE(tracee_that_executes_elsewhere) { apart(executes); }

static void asks(void) {
  pid_t child = fork();
  need(child != -1);
  if (child == 0) {
      pin_to(second);
    settle();
    need(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
    execl("/bin/sh", "sh", "-c", "exit 3", NULL);
    _exit(127);
  }
  follow(child);
}

CASE(tracee_that_asks_elsewhere) { apart(asks); }
