/* A program that traces others: its requests come from the thread that attached, wherever that runs. */
#include "../check.h"
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>

static atomic_bool stop;
static void *disturb(void *argument) {
  while (!stop) {
    sched_yield();
    sleep_ms(1);
  }
  return argument;
}

static volatile long shared_word = 5;

/* Sees the child through stops, with waits and sleeps between the requests. */
static void watch(pid_t child, int rounds) {
  int status, bad = 0;
  for (int i = 0; i < rounds; i++) {
    need(waitpid(child, &status, __WALL) == child);
    if (!WIFSTOPPED(status)) break;
    errno = 0;
    long word = ptrace(PTRACE_PEEKDATA, child, (void *)&shared_word, NULL);
    if (errno != 0) bad++;
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, child, NULL, &registers) != 0) bad++;
    sleep_ms(1);
    sched_yield();
    if (ptrace(PTRACE_POKEDATA, child, (void *)&shared_word, (void *)(word + 1)) != 0) bad++;
    if (ptrace(PTRACE_CONT, child, NULL, NULL) != 0) bad++;
  }
  say("requests refused: %d", bad);
  kill(child, SIGKILL);
  need(waitpid(child, &status, __WALL) == child);
  say("child: %s", ended(status));
}

static void stops(void) {
  for (int i = 0; i < 1000; i++) raise(SIGSTOP);
}

static void trace_a_child(void) {
  pid_t child = fork();
  need(child != -1);
  if (child == 0) {
    need(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
    stops();
    _exit(0);
  }
  watch(child, 50);
}

static void *attach(void *argument) {
  pid_t child = fork();
  need(child != -1);
  if (child == 0) {
    for (;;) pause();
  }
  settle();
  say("seize %s", result(ptrace(PTRACE_SEIZE, child, NULL, NULL)));
  int bad = 0, status;
  for (int i = 0; i < 50; i++) {
    if (ptrace(PTRACE_INTERRUPT, child, NULL, NULL) != 0) bad++;
    need(waitpid(child, &status, __WALL) == child);
    sleep_ms(1);
    errno = 0;
    ptrace(PTRACE_PEEKDATA, child, (void *)&shared_word, NULL);
    if (errno != 0) bad++;
    if (ptrace(PTRACE_CONT, child, NULL, NULL) != 0) bad++;
  }
  say("requests refused: %d", bad);
  say("detach while it runs %s", result(ptrace(PTRACE_DETACH, child, NULL, NULL)));
  kill(child, SIGKILL);
  need(waitpid(child, &status, __WALL) == child);
  say("child: %s", ended(status));
  return argument;
}

CASE(child) { trace_a_child(); }

/* The name is any bytes, which the status in /proc shows as they are. */
CASE(child_with_a_strange_name) {
  need(prctl(PR_SET_NAME, "\xff\n\\) \xfe") == 0);
  trace_a_child();
}

CASE(seized) { attach(NULL); }

CASE(by_threads) {
  pthread_t threads[4], tracers[3];
  stop = false;
  for (int i = 0; i < COUNT(threads); i++) threads[i] = start(disturb, NULL);
  for (int i = 0; i < COUNT(tracers); i++) {
    tracers[i] = start(attach, NULL);
    finish(tracers[i]);
  }
  attach(NULL);
  stop = true;
  for (int i = 0; i < COUNT(threads); i++) finish(threads[i]);
}

static void *attach_quietly(void *argument) {
  pid_t child = fork();
  need(child != -1);
  if (child == 0) {
    for (;;) pause();
  }
  settle();
  int bad = ptrace(PTRACE_SEIZE, child, NULL, NULL) != 0, status;
  for (int i = 0; i < 200; i++) {
    if (ptrace(PTRACE_INTERRUPT, child, NULL, NULL) != 0) bad++;
    need(waitpid(child, &status, __WALL) == child);
    if (i % 4 == 0) sched_yield();
    if (ptrace(PTRACE_CONT, child, NULL, NULL) != 0) bad++;
  }
  kill(child, SIGKILL);
  need(waitpid(child, &status, __WALL) == child);
  *(int *)argument = bad;
  return NULL;
}

/* Each is to be on a host thread of its own, and they meet on the same CPUs. */
CASE(several_tracers) {
  pthread_t threads[4], tracers[6];
  int bad[COUNT(tracers)];
  stop = false;
  for (int i = 0; i < COUNT(threads); i++) threads[i] = start(disturb, NULL);
  for (int i = 0; i < COUNT(tracers); i++) tracers[i] = start(attach_quietly, &bad[i]);
  for (int i = 0; i < COUNT(tracers); i++) {
    finish(tracers[i]);
    say("requests refused: %d", bad[i]);
  }
  stop = true;
  for (int i = 0; i < COUNT(threads); i++) finish(threads[i]);
}

CASE(no_such_process) {
  say("attach to nobody %s", result(ptrace(PTRACE_ATTACH, 0x3fffffff, NULL, NULL)));
  say("peek at oneself %s", result(ptrace(PTRACE_PEEKDATA, getpid(), NULL, NULL)));
}

/* The tracer takes away each signal that would end the child, and then lets one through. */
static const int deadly[] = {SIGTERM, SIGUSR1, SIGTRAP, SIGSEGV, SIGABRT, SIGHUP, SIGTERM};
static void *raise_them(void *argument) {
  for (int round = 0; round < 2; round++)
    for (int i = 0; i < COUNT(deadly); i++) {
      if (round) kill(getpid(), deadly[i]);
      else raise(deadly[i]);
    }
  return argument;
}
static void *trace_deadly(void *argument) {
  pid_t child = fork();
  need(child != -1);
  if (child == 0) {
    need(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
    raise_them(NULL);
    raise(SIGUSR2);
    _exit(3);
  }
  int status, seen = 0;
  while (waitpid(child, &status, __WALL) == child && WIFSTOPPED(status)) {
    int signal = WSTOPSIG(status);
    siginfo_t info;
    need(ptrace(PTRACE_GETSIGINFO, child, NULL, &info) == 0);
    /* 32 and 33 are ticks and requests of Entresol. */
    bool passes = signal == 32 || signal == 33 || signal == SIGUSR2;
    if (signal != 32 && signal != 33) say("stop %d: %s, code %d", seen++, sigabbrev_np(signal), info.si_code);
    need(ptrace(PTRACE_CONT, child, NULL, passes ? (void *)(long)signal : NULL) == 0);
  }
  say("child: %s", ended(status));
  return argument;
}
CASE(deadly_signals_taken_away) { trace_deadly(NULL); }
CASE(deadly_signals_taken_away_by_a_thread) { finish(start(trace_deadly, NULL)); }
