/* Which thread gets a signal that was sent to the process: who takes it among very many that do not, and who
 * gets it when that one cannot any more. */
#include "../check.h"
#include <poll.h>
#include <sys/signalfd.h>

#define MANY 1500

static atomic_long handled_by;
static atomic_int handled, open_now, leave, stand;
static _Thread_local long number;

static void handler(int signal) {
  (void)signal;
  handled_by = number;
  handled++;
}

static void block(int how, int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  need(pthread_sigmask(how, &set, NULL) == 0);
}

/* Blocks the signal but when it is its turn; at the end all leave. */
static void *waiter(void *which) {
  number = (long)(intptr_t)which;
  stand++;
  while (!leave) {
    if (open_now == number) {
      block(SIG_UNBLOCK, SIGUSR1);
      stand++;
      while (open_now == number && !leave) sleep_ms(1);
      block(SIG_BLOCK, SIGUSR1);
      stand++;
    }
    sleep_ms(number == 700 || number == 900 ? 1 : 200);
  }
  return NULL;
}

static pthread_t threads[MANY + 1];
static void begin(void) {
  struct sigaction action = {.sa_handler = handler};
  need(sigaction(SIGUSR1, &action, NULL) == 0);
  handled = leave = open_now = stand = 0;
  block(SIG_BLOCK, SIGUSR1);
  pthread_attr_t small;
  need(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 65536) == 0);
  for (long i = 1; i <= MANY; i++)
    need(pthread_create(&threads[i], &small, waiter, (void *)(intptr_t)i) == 0);
  wait_until(stand == MANY);
}
static void end(void) {
  leave = 1;
  for (int i = 1; i <= MANY; i++) finish(threads[i]);
}
static void turn(int to) {
  int before = stand;
  open_now = to;
  wait_until(stand > before);
}

CASE(one_of_many) {
  begin();
  turn(700);
  kill(getpid(), SIGUSR1);
  wait_until(handled == 1);
  say("by %ld", handled_by);
  block(SIG_UNBLOCK, SIGUSR1);
  for (int i = 0; i < 5; i++) {
    kill(getpid(), SIGUSR1);
    wait_until(handled == 2 + i);
    say("by %ld", handled_by);
  }
  block(SIG_BLOCK, SIGUSR1);
  open_now = 0;
  end();
}

CASE(pending_until_one_opens) {
  begin();
  kill(getpid(), SIGUSR1);
  settle();
  say("handled %d", handled);
  turn(900);
  wait_until(handled == 1);
  say("by %ld", handled_by);
  open_now = 0;
  end();
}

static atomic_int aside;
static void *opens(void *unused) {
  number = 7777;
  block(SIG_UNBLOCK, SIGUSR1);
  aside = 1;
  while (!leave) sleep_ms(1);
  return unused;
}

/* A pending signal whose receiver blocks it, or ends, before it looks: the next one gets it. */
CASE(from_one_to_the_next) {
  begin();
  aside = 0;
  pthread_t other = start(opens, NULL);
  wait_until(aside == 1);
  sigset_t all, old;
  sigfillset(&all);
  for (int i = 0; i < 200; i++) {
    block(SIG_UNBLOCK, SIGUSR1);
    handled = 0;
    kill(getpid(), SIGUSR1);
    need(pthread_sigmask(SIG_SETMASK, &all, &old) == 0);
    wait_until(handled == 1);
    need(pthread_sigmask(SIG_SETMASK, &old, NULL) == 0);
    block(SIG_BLOCK, SIGUSR1);
    must(handled_by == 0 || handled_by == 7777);
  }
  say("each was handled");
  leave = 1;
  finish(other);
  end();
}

/* A descriptor reads what everybody blocks, as long as everybody does. */
CASE(descriptor_of_many) {
  begin();
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  int fd = signalfd(-1, &set, SFD_NONBLOCK);
  need(fd >= 0);
  kill(getpid(), SIGUSR1);
  struct pollfd readable = {.fd = fd, .events = POLLIN};
  say("poll %d", poll(&readable, 1, 10000));
  struct signalfd_siginfo info;
  say("read %s", result(read(fd, &info, sizeof info)));
  turn(900);
  kill(getpid(), SIGUSR1);
  wait_until(handled == 1);
  say("handled by %ld", handled_by);
  turn(0);
  kill(getpid(), SIGUSR1);
  say("poll %d", poll(&readable, 1, 10000));
  close(fd);
  end();
}

/* Of a thread's id all of these make the process's (`find_task_by_vpid`), but that thread is asked first. */
static void *names_itself(void *which) {
  number = (long)(intptr_t)which;
  siginfo_t info = {.si_signo = SIGUSR1, .si_code = SI_QUEUE, .si_pid = getpid(), .si_uid = getuid()};
  int before = handled;
  kill(gettid(), SIGUSR1);
  say("kill: now %d, by %ld", handled - before, handled_by);
  say("rt_sigqueueinfo: %s", result(syscall(SYS_rt_sigqueueinfo, gettid(), SIGUSR1, &info)));
  say("now %d, by %ld", handled - before, handled_by);
  say("of the process: %s", result(syscall(SYS_rt_sigqueueinfo, getpid(), SIGUSR1, &info)));
  wait_until(handled - before == 3);
  return NULL;
}
CASE(the_thread_that_is_named_takes_it) {
  struct sigaction action = {.sa_handler = handler};
  need(sigaction(SIGUSR1, &action, NULL) == 0);
  number = 1;
  block(SIG_UNBLOCK, SIGUSR1);
  finish(start(names_itself, (void *)2));
}

/* Only to itself may a thread speak as the kernel or as tgkill. */
static void *speaks_as(void *to) {
  static const int codes[] = {SI_USER, SI_KERNEL, SI_TKILL, SI_QUEUE, SI_TIMER, CLD_EXITED};
  static const char *const names[] = {"user", "kernel", "tkill", "queue", "timer", "child"};
  for (int i = 0; i < COUNT(codes); i++) {
    siginfo_t info = {.si_signo = SIGURG, .si_code = codes[i]};
    const char *first = result(syscall(SYS_rt_sigqueueinfo, getpid(), SIGURG, &info));
    const char *second = result(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGURG, &info));
    const char *third = result(syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)(intptr_t)to, SIGURG, &info));
    say("as %s: process %s, itself %s, the other %s", names[i], first, second, third);
    first = result(syscall(SYS_rt_sigqueueinfo, getpid(), 0, &info));
    second = result(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), 0, &info));
    third = result(syscall(SYS_rt_sigqueueinfo, getpid(), 65, &info));
    say("only asked: process %s, itself %s; no signal %s", first, second, third);
  }
  return NULL;
}
CASE(who_may_speak_as_whom) {
  pthread_t self = start(speaks_as, (void *)(intptr_t)getpid());
  finish(self);
  speaks_as((void *)(intptr_t)getpid());
}
