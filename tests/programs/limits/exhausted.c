//@ alone
//@ cpus: default
/* What runs out is refused with an errno, and nothing hangs: descriptors, processes, pending signals, memory for stacks. */
#include "../realtime.h"
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

static void limit(int resource, rlim_t to) {
  struct rlimit value = {to, to};
  need(setrlimit(resource, &value) == 0);
}

static void *compute_a_little(void *argument) {
  volatile int sum = 0;
  for (int i = 0; i < 100000; i++) sum += i;
  sched_yield();
  return argument;
}

/* No descriptor is left: whatever needs one says so, all else goes on. */
static void without_descriptors(void) {
  int ends[2];
  need(pipe(ends) == 0);
  limit(RLIMIT_NOFILE, 32);
  while (dup(0) != -1) {}
  say("dup %s", errname(errno));
  int more[2];
  say("pipe %s, socket %s", result(pipe(more)), result(socket(AF_UNIX, SOCK_STREAM, 0)));
  say("epoll %s, eventfd %s", result(epoll_create1(0)), result(eventfd(0, 0)));
  say("timerfd %s", result(timerfd_create(CLOCK_MONOTONIC, 0)));
  say("open %s", result(open("/dev/null", O_RDONLY)));
  pthread_t threads[8];
  for (int i = 0; i < COUNT(threads); i++) threads[i] = start(compute_a_little, NULL);
  for (int i = 0; i < COUNT(threads); i++) finish(threads[i]);
  pid_t child = fork();
  if (child == 0) _exit(4);
  int status;
  need(waitpid(child, &status, 0) == child);
  say("child %s", ended(status));
  must(write(ends[1], "x", 1) == 1);
  char byte;
  say("read %s", result(read(ends[0], &byte, 1)));
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_NONE};
  say("timer %s", result(timer_create(CLOCK_MONOTONIC, &event, &timer)));
  struct pollfd many[64] = {{0}};
  say("poll of too many %s", result(poll(many, 64, 0)));
}
CASE(descriptors) { in_child("child", without_descriptors); }

/* So few that hardly the standard streams are there: threads, children, waits and signals need none. */
static atomic_int finished;
static void *count_and_sleep(void *argument) {
  sleep_ms(1);
  finished++;
  return argument;
}
static void with_few_descriptors(int most) {
  limit(RLIMIT_NOFILE, most);
  int more = 0;
  while (dup(0) != -1) more++;
  say("%d: %d more, then %s", most, more, errname(errno));
  say("open %s, memfd %s", result(open("/dev/null", O_RDONLY)), result(memfd_create("x", 0)));
  say("own threads %s", result(open("/proc/self/task", O_RDONLY | O_DIRECTORY)));
  pthread_t threads[4];
  finished = 0;
  for (int i = 0; i < COUNT(threads); i++) threads[i] = start(count_and_sleep, NULL);
  for (int i = 0; i < COUNT(threads); i++) finish(threads[i]);
  say("finished %d", finished);
  char *names[] = {"true", NULL};
  for (int way = 0; way < 2; way++) {
    pid_t child = fork();
    need(child != -1);
    if (child == 0) {
      /* With a descriptor or without one for the loader, which says so. */
      close(2);
      if (way == 1) close(0);
      execv("/bin/true", names);
      _exit(126);
    }
    int status;
    need(waitpid(child, &status, 0) == child);
    say("true %s", ended(status));
  }
  for (int fd = 3; fd < most; fd++) close(fd);
  int ends[2];
  say("pipe %s", result(pipe(ends)));
}
CASE(few_descriptors) {
  for (int most = 3; most <= 10; most++) {
    pid_t child = fork();
    need(child != -1);
    if (child == 0) {
      with_few_descriptors(most);
      _exit(0);
    }
    int status;
    need(waitpid(child, &status, 0) == child);
    say("child %s", ended(status));
  }
}

/* A user who may have no more processes: threads that wait already are fed and go on, fork is refused. */
enum { READERS = 6 };
static int pipes[READERS][2];
static atomic_int awake;
static void *read_one(void *argument) {
  char byte;
  awake++;
  long got = read(pipes[(intptr_t)argument][0], &byte, 1);
  return (void *)got;
}
static void *read_in_time(void *argument) {
  struct pollfd one = {.fd = pipes[(intptr_t)argument][0], .events = POLLIN};
  int64_t before = now_ns(CLOCK_MONOTONIC);
  awake++;
  int answer;
  do answer = poll(&one, 1, 100);
  while (answer == -1 && errno == EINTR);
  must(answer != 0 || now_ns(CLOCK_MONOTONIC) - before >= 100000000);
  return (void *)(intptr_t)answer;
}
static void become_nobody(void) {
  if (getuid() == 0) need(setgroups(0, NULL) == 0 && setresgid(64123, 64123, 64123) == 0 && setresuid(64123, 64123, 64123) == 0);
}
static void without_processes(void) {
  for (int i = 0; i < READERS; i++) need(pipe(pipes[i]) == 0);
  pthread_t threads[READERS];
  /* All threads are there before the limit is. */
  become_nobody();
  for (intptr_t i = 0; i < READERS; i++) threads[i] = start(i % 4 == 3 ? read_in_time : read_one, (void *)i);
  limit(RLIMIT_NPROC, 1);
  wait_until(awake == READERS);
  sleep_ms(30);
  pid_t child = fork();
  if (child == 0) _exit(0);
  must(child == -1 && errno == EAGAIN);
  for (int i = 0; i < READERS; i++)
    if (i % 4 != 3) must(write(pipes[i][1], "x", 1) == 1);
  long sum = 0;
  for (int i = 0; i < READERS; i++) sum += (long)finish(threads[i]);
  say("read in all %ld", sum);
}
CASE(processes) { in_child("child", without_processes); }

static void without_room_for_signals(void) {
  /* The host counts a user's processes together. */
  become_nobody();
  limit(RLIMIT_SIGPENDING, 5);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGRTMIN + 1), sigaddset(&set, SIGUSR1);
  need(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
  int sent = 0;
  while (sent < 20 && sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = sent}) == 0) sent++;
  say("queued %d, then %s", sent, errname(errno));
  say("kill with a standard signal %s", result(kill(getpid(), SIGUSR1)));
  int got = 0;
  while (sigtimedwait(&set, NULL, &(struct timespec){0}) > 0) got++;
  say("got %d", got);
}
CASE(pending_signals) { in_child("child", without_room_for_signals); }

/* Nor does it keep anybody from running: who comes to a CPU where another computes alone, who sleeps, who waits in a call
 * until there is a signal, and threads that need new carriers. */
static atomic_bool done;
static void on_signal(int signal) { (void)signal; }
static void *compute_until_done(void *argument) {
  pin_to((int)(intptr_t)argument);
  awake++;
  while (!done) {}
  return NULL;
}
static void *come_there(void *argument) {
  pin_to((int)(intptr_t)argument);
  sleep_ms(3);
  done = true;
  return NULL;
}
static void *wait_for_signal(void *argument) {
  char byte;
  awake++;
  return (void *)(intptr_t)(read((int)(intptr_t)argument, &byte, 1) == -1 ? errno : 0);
}
static void without_room_for_ours(void) {
  int ends[2];
  need(pipe(ends) == 0 && sigaction(SIGUSR1, &(struct sigaction){.sa_handler = on_signal}, NULL) == 0);
  cpu_set_t cpus;
  need(sched_getaffinity(0, sizeof cpus, &cpus) == 0);
  int last = first_cpu();
  for (int cpu = last; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &cpus)) last = cpu;
  limit(RLIMIT_SIGPENDING, 0);
  for (int round = 0; round < 20; round++) {
    awake = 0;
    done = false;
    pthread_t waits[3], alone = start(compute_until_done, (void *)(intptr_t)last);
    for (int i = 0; i < COUNT(waits); i++) waits[i] = start(wait_for_signal, (void *)(intptr_t)ends[0]);
    wait_until(awake == 1 + COUNT(waits));
    sleep_ms(10);
    finish(start(come_there, (void *)(intptr_t)last));
    finish(alone);
    for (int i = 0; i < COUNT(waits); i++) {
      need(pthread_kill(waits[i], SIGUSR1) == 0);
      must((intptr_t)finish(waits[i]) == EINTR);
    }
  }
}
CASE(signals_of_our_own) { in_child("child", without_room_for_ours); }
