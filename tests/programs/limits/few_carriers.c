//@ alone
//@ seconds: 60
/* A user who may have no more processes, and many threads in calls that wait: whoever they wait for runs all the same.
 * Natively the threads are there before the limit is; so they are under Entresol, which makes its host threads later. */
#include "../check.h"
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { MANY = 48 };
static pthread_t threads[MANY];
static atomic_int ready, go, done;
static int ends[MANY][2];

static void become_nobody(void) {
  if (getuid() == 0) need(setgroups(0, NULL) == 0 && setresgid(64124, 64124, 64124) == 0 && setresuid(64124, 64124, 64124) == 0);
}
/* All threads are there before the limit is, and wait only then. */
static bool no_memory;
static void begin(int count, void *(*body)(void *)) {
  for (intptr_t i = 0; i < count; i++) threads[i] = start(body, (void *)i);
  struct rlimit one = {1, 1};
  need(setrlimit(no_memory ? RLIMIT_AS : RLIMIT_NPROC, &one) == 0);
  go = 1;
  wait_until(ready == count);
}
static void begun(void) {
  while (!go) sleep_ms(1);
  ready++;
}
static void compute(int64_t ms) {
  struct timespec from, now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
  do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  while ((now.tv_sec - from.tv_sec) * 1000 + (now.tv_nsec - from.tv_nsec) / 1000000 < ms);
}
static long finish_all(int count) {
  long sum = 0;
  for (int i = 0; i < count; i++) sum += (long)finish(threads[i]);
  return sum;
}

/* The one who writes computes before each byte, so it always wants the CPU that a reader has. */
static int rounds = 8;
static void *read_some(void *argument) {
  begun();
  long got = 0;
  char byte;
  while (got < rounds && read(ends[(intptr_t)argument][0], &byte, 1) == 1) got++;
  return (void *)got;
}
static void readers(void) {
  become_nobody();
  for (int i = 0; i < MANY; i++) need(pipe(ends[i]) == 0);
  begin(MANY, read_some);
  for (int round = 0; round < rounds; round++)
    for (int i = 0; i < MANY; i++) {
      compute(2);
      need(write(ends[i][1], "x", 1) == 1);
    }
  say("read %ld", finish_all(MANY));
}
CASE(readers) { in_child("child", readers); }
static void readers_without_memory(void) {
  no_memory = true;
  rounds = 2;
  readers();
}
CASE(memory) { in_child("child", readers_without_memory); }

/* Each thread is taken off its CPU in the middle of its code, more than once, and gets a signal there: what it has in its
 * vector registers must be kept, of all of them at the same time. */
static atomic_int handled, enough;
static void on_usr1(int signal) { handled += signal == SIGUSR1; }
static void *multiply(void *argument) {
  begun();
  double product = 1 + (double)(intptr_t)argument;
  while (!enough)
    for (int i = 0; i < 1000; i++) product *= i % 2 ? 2 : 0.5;
  return (void *)(intptr_t)(product == 1 + (double)(intptr_t)argument);
}
static void states_without_memory(void) {
  no_memory = true;
  need(signal(SIGUSR1, on_usr1) != SIG_ERR);
  begin(MANY, multiply);
  for (int round = 1; round <= 3; round++) {
    for (int i = 0; i < MANY; i++) need(pthread_kill(threads[i], SIGUSR1) == 0);
    wait_until(handled == round * MANY);
  }
  enough = 1;
  say("handled %d, as they were %ld", handled, finish_all(MANY));
}
CASE(states) { in_child("child", states_without_memory); }

/* Calls that cannot be made without waiting: all that the host can do for them is to be interrupted. */
static int set, listener, locked;
static void *wait_somehow(void *argument) {
  intptr_t i = (intptr_t)argument;
  struct pollfd one = {.fd = ends[i][0], .events = POLLIN};
  struct sembuf take = {.sem_num = 0, .sem_op = -1};
  fd_set in;
  begun();
  long answer;
  switch (i % 6) {
  case 0: answer = ppoll(&one, 1, NULL, NULL); break;
  case 1:
    FD_ZERO(&in);
    FD_SET(ends[i][0], &in);
    answer = pselect(ends[i][0] + 1, &in, NULL, NULL, NULL, NULL);
    break;
  case 2: answer = semop(set, &take, 1) == 0; break;
  case 3: answer = accept(listener, NULL, NULL) >= 0; break;
  case 4: {
    int mine = open("/proc/self/exe", O_RDONLY);
    answer = flock(mine, LOCK_EX) == 0;
    close(mine);
    break;
  }
  default: {
    siginfo_t info;
    answer = waitid(P_ALL, 0, &info, WEXITED) == 0;
  }
  }
  done++;
  return (void *)answer;
}
static void calls(void) {
  become_nobody();
  enum { COUNT_OF = 12 };
  for (int i = 0; i < COUNT_OF; i++) need(pipe(ends[i]) == 0);
  set = semget(IPC_PRIVATE, 1, 0600);
  locked = open("/proc/self/exe", O_RDONLY);
  listener = socket(AF_UNIX, SOCK_STREAM, 0);
  struct sockaddr_un any = {.sun_family = AF_UNIX};
  struct sockaddr_un name;
  socklen_t length = sizeof name;
  need(set != -1 && flock(locked, LOCK_EX) == 0 && bind(listener, (void *)&any, sizeof(sa_family_t)) == 0);
  need(listen(listener, 8) == 0 && getsockname(listener, (void *)&name, &length) == 0);
  int gate[2];
  need(pipe(gate) == 0);
  for (int i = 0; i < 2; i++) {
    pid_t child = fork();
    need(child != -1);
    if (child == 0) {
      char byte;
      close(gate[1]);
      _exit(read(gate[0], &byte, 1) != 0);
    }
  }
  begin(COUNT_OF, wait_somehow);
  compute(50);
  must(done == 0);
  for (int i = 0; i < COUNT_OF; i++)
    if (i % 6 < 2) need(write(ends[i][1], "x", 1) == 1);
  compute(20);
  need(semop(set, &(struct sembuf){.sem_op = 2}, 1) == 0);
  for (int i = 0; i < 2; i++) {
    int client = socket(AF_UNIX, SOCK_STREAM, 0);
    compute(20);
    need(connect(client, (void *)&name, length) == 0);
  }
  need(flock(locked, LOCK_UN) == 0);
  compute(20);
  close(gate[1]);
  say("answers %ld", finish_all(COUNT_OF));
  semctl(set, 0, IPC_RMID);
}
CASE(calls) { in_child("child", calls); }

/* A time limit ends at its time and not before, though somebody computes all along. */
static atomic_bool over;
static void *poll_in_time(void *argument) {
  intptr_t i = (intptr_t)argument;
  struct pollfd one = {.fd = ends[i][0], .events = POLLIN};
  struct epoll_event event = {.events = EPOLLIN};
  int set_of = epoll_create1(0), answer;
  need(set_of != -1 && epoll_ctl(set_of, EPOLL_CTL_ADD, ends[i][0], &event) == 0);
  begun();
  int64_t before = now_ns(CLOCK_MONOTONIC);
  do answer = i % 2 ? poll(&one, 1, 150) : epoll_wait(set_of, &event, 1, 150);
  while (answer == -1 && errno == EINTR);
  must(now_ns(CLOCK_MONOTONIC) - before >= 150000000);
  done++;
  return (void *)(intptr_t)(answer == 0);
}
static void *compute_on(void *argument) {
  begun();
  while (!over) compute(1);
  return argument;
}
static void *some_of_each(void *argument) { return (intptr_t)argument < 8 ? poll_in_time(argument) : compute_on(NULL); }
static void in_time(void) {
  become_nobody();
  for (int i = 0; i < 8; i++) need(pipe(ends[i]) == 0);
  begin(12, some_of_each);
  wait_until(done == 8);
  over = true;
  say("timed out %ld", finish_all(12));
}
CASE(in_time) { in_child("child", in_time); }

/* A signal ends such a wait. */
static void nothing(int signal) { (void)signal; }
static void *read_until_a_signal(void *argument) {
  begun();
  char byte;
  int r = read(ends[(intptr_t)argument][0], &byte, 1);
  done++;
  return (void *)(intptr_t)(r == -1 && errno == EINTR);
}
static void *readers_and_one_who_computes(void *argument) {
  return (intptr_t)argument < 8 ? read_until_a_signal(argument) : compute_on(NULL);
}
static void signals(void) {
  become_nobody();
  struct sigaction action = {.sa_handler = nothing};
  need(sigaction(SIGUSR1, &action, NULL) == 0);
  for (int i = 0; i < 8; i++) need(pipe(ends[i]) == 0);
  begin(10, readers_and_one_who_computes);
  /* On a busy machine one may not have come to its read yet. */
  while (done < 8) {
    settle();
    for (int i = 0; i < 8; i++) need(pthread_kill(threads[i], SIGUSR1) == 0);
  }
  long sum = 0;
  for (int i = 0; i < 8; i++) sum += (long)finish(threads[i]);
  over = true;
  say("interrupted %ld", sum);
  finish(threads[8]), finish(threads[9]);
}
CASE(signals) { in_child("child", signals); }

/* Nobody computes; one only sleeps, and ends their waits then. */
static void *accept_one(void *argument) {
  (void)argument;
  begun();
  return (void *)(intptr_t)(accept(listener, NULL, NULL) >= 0);
}
static void sleeper(void) {
  become_nobody();
  listener = socket(AF_UNIX, SOCK_STREAM, 0);
  struct sockaddr_un any = {.sun_family = AF_UNIX};
  struct sockaddr_un name;
  socklen_t length = sizeof name;
  need(bind(listener, (void *)&any, sizeof(sa_family_t)) == 0 && listen(listener, 8) == 0);
  need(getsockname(listener, (void *)&name, &length) == 0);
  begin(6, accept_one);
  for (int i = 0; i < 6; i++) {
    sleep_ms(20);
    need(connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&name, length) == 0);
  }
  say("accepted %ld", finish_all(6));
}
CASE(sleeper) { in_child("child", sleeper); }

/* Threads with different rights each need a host thread with theirs. A call that gives rights up may be refused like one for which
 * there is no memory; if it is not, each thread has its own rights and no other's, in calls that wait, too. */
static void *give_up_rights(void *argument) {
  intptr_t i = (intptr_t)argument;
  begun();
  bool gives_up = i % 2, given = false;
  if (gives_up) {
    given = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
    must(given || errno == EAGAIN);
  }
  for (int round = 0; round < 20; round++) {
    compute(1);
    must(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == given);
    char byte;
    if (round % 8 == 0) must(read(ends[i][0], &byte, 1) == 1);
    if (round % 8 == 4) sleep_ms(1);
  }
  done++;
  return NULL;
}
static void rights(void) {
  enum { COUNT_OF = 8 };
  become_nobody();
  for (int i = 0; i < COUNT_OF; i++) need(pipe(ends[i]) == 0);
  begin(COUNT_OF, give_up_rights);
  for (int round = 0; round < 3; round++) {
    compute(5);
    for (int i = 0; i < COUNT_OF; i++) need(write(ends[i][1], "x", 1) == 1);
  }
  finish_all(COUNT_OF);
  say("with their own rights %d", done);
}
CASE(rights) { in_child("child", rights); }

/* All of them, by calls of the C library, which makes each thread give them up: all or none. */
static void *compute_somewhat(void *argument) {
  begun();
  for (int round = 0; round < 20; round++) compute(1), sched_yield();
  uid_t real, effective, saved;
  need(getresuid(&real, &effective, &saved) == 0);
  return (void *)(intptr_t)(real == 64124 && effective == 64124 && saved == 64124);
}
static void all_rights(void) {
  if (getuid() != 0) return say("all have changed");
  begin(8, compute_somewhat);
  need(setresuid(64124, 64124, 64124) == 0);
  long changed = finish_all(8);
  must(changed == 8);
  say("all have changed");
}
CASE(all_rights) { in_child("child", all_rights); }

/* A CPU that nobody has used yet gets its first threads when there may be no more host threads. */
static cpu_set_t all;
static void *compute_there(void *argument) {
  cpu_set_t one;
  begun();
  int nth = (intptr_t)argument % CPU_COUNT(&all), cpu = 0;
  for (;; cpu++)
    if (CPU_ISSET(cpu, &all) && nth-- == 0) break;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  need(sched_setaffinity(0, sizeof one, &one) == 0);
  for (int round = 0; round < 5; round++) {
    compute(2);
    must(sched_getcpu() == cpu);
    sleep_ms(1);
  }
  done++;
  return argument;
}
static void unserved(void) {
  enum { COUNT_OF = 4 };
  become_nobody();
  cpu_set_t one;
  need(sched_getaffinity(0, sizeof all, &all) == 0);
  CPU_ZERO(&one);
  for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++)
    if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
  need(sched_setaffinity(0, sizeof one, &one) == 0);
  begin(COUNT_OF, compute_there);
  while (done < COUNT_OF) {}
  say("computed %ld", finish_all(COUNT_OF));
}
CASE(unserved) { in_child("child", unserved); }
/* Whether a carrier leaves its CPU in time depends on the moment at which it is asked. */
CASE(unserved_often) {
  for (int i = 0; i < 10; i++) in_child("child", unserved);
}

/* There is no room for a second host thread from the beginning. */
static void *nothing_at_all(void *argument) { return argument; }
static void on_alarm(int signal) { (void)signal; }
static void alone(void) {
  pthread_t thread;
  int error = pthread_create(&thread, NULL, nothing_at_all, NULL);
  say("thread: %s", errname(error));
  pid_t child = fork();
  if (child == 0) _exit(0);
  say("fork: %s", result(child));
  struct sigaction action = {.sa_handler = on_alarm};
  need(sigaction(SIGALRM, &action, NULL) == 0);
  ualarm(200000, 0);
  say("pause %s", result(pause()));
  raise(SIGALRM);
  int pair[2];
  need(pipe(pair) == 0 && write(pair[1], "x", 1) == 1);
  char byte;
  say("read %s", result(read(pair[0], &byte, 1)));
  ualarm(200000, 0);
  say("read %s", result(read(pair[0], &byte, 1)));
}
CASE(one_only) {
  if (getenv("ALONE")) return alone();
  pid_t child = fork();
  need(child != -1);
  if (child == 0) {
    become_nobody();
    struct rlimit one = {1, 1};
    /* Entresol says so, once. */
    need(dup2(open("/dev/null", O_WRONLY), 2) == 2);
    need(setrlimit(RLIMIT_NPROC, &one) == 0 && setenv("ALONE", "1", 1) == 0);
    execl("/proc/self/exe", "few_carriers", "one_only", NULL);
    _exit(98);
  }
  int status;
  need(waitpid(child, &status, 0) == child);
  say("child %s", ended(status));
}
