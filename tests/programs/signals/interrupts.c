/* What a signal does to a thread that waits in a call; children and their end; alarms. */
#include "../check.h"
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>

static int fds[2], sockets[2];
static atomic_int count, at_wait;
static void note_it(int signal) {
  (void)signal;
  count++;
}

static void install(int signal, int flags) {
  struct sigaction action = {.sa_handler = note_it, .sa_flags = flags};
  need(sigaction(signal, &action, NULL) == 0);
}

static long call_read(void) {
  char byte;
  return read(fds[0], &byte, 1);
}
static long call_recv(void) {
  char byte;
  return recv(sockets[0], &byte, 1, 0);
}
static long call_poll(void) {
  struct pollfd poll_fd = {.fd = fds[0], .events = POLLIN};
  return poll(&poll_fd, 1, 20000);
}
static long call_select(void) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(fds[0], &set);
  struct timeval time = {.tv_sec = 20};
  return select(fds[0] + 1, &set, NULL, NULL, &time);
}
static long call_waitpid(void) {
  pid_t child = fork();
  if (child == 0) {
    settle();
    settle();
    settle();
    settle();
    _exit(0);
  }
  long answer = waitpid(child, NULL, 0);
  if (answer == child) return 1;
  int error = errno;
  while (waitpid(child, NULL, 0) == -1) {}
  errno = error;
  return answer;
}

static const struct {
  const char *name;
  long (*wait)(void);
} calls[] = {{"read", call_read}, {"recv", call_recv}, {"poll", call_poll}, {"select", call_select},
             {"waitpid", call_waitpid}};

static void *wait_in_call(void *index) {
  at_wait = 1;
  long answer = calls[(intptr_t)index].wait();
  say("%s: %s", calls[(intptr_t)index].name, result(answer));
  return NULL;
}

static void feed(void) {
  must(write(fds[1], "x", 1) == 1);
  must(write(sockets[1], "x", 1) == 1);
}

static void drain(void) {
  char bytes[2];
  while (poll(&(struct pollfd){.fd = fds[0], .events = POLLIN}, 1, 0) == 1) must(read(fds[0], bytes, 2) > 0);
  while (recv(sockets[0], bytes, 2, MSG_DONTWAIT) > 0) {}
}

static void interrupt_all(int flags) {
  need(pipe(fds) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
  install(SIGUSR1, flags);
  for (intptr_t i = 0; i < COUNT(calls); i++) {
    count = at_wait = 0;
    pthread_t thread = start(wait_in_call, (void *)i);
    wait_until(at_wait);
    settle();
    pthread_kill(thread, SIGUSR1);
    wait_until(count == 1);
    feed();
    finish(thread);
    drain();
  }
}

CASE(without_restart) { interrupt_all(0); }
CASE(with_restart) { interrupt_all(SA_RESTART); }

/* With a handler that restarts, none of a thousand signals shows. */
static void *read_all(void *sum) {
  unsigned char bytes[4096];
  long got;
  while ((got = read(fds[0], bytes, sizeof bytes)) > 0) *(long *)sum += got;
  return (void *)(intptr_t)(got == 0 ? 0 : errno);
}

CASE(restarts_do_not_show) {
  need(pipe(fds) == 0);
  install(SIGUSR1, SA_RESTART);
  long sum = 0;
  pthread_t thread = start(read_all, &sum);
  for (int i = 0; i < 1000; i++) {
    pthread_kill(thread, SIGUSR1);
    must(write(fds[1], "0123456789", 10) == 10);
  }
  close(fds[1]);
  say("error %s", errname((int)(intptr_t)finish(thread)));
  say("bytes %ld", sum);
}

static atomic_bool written;
static void *write_much(void *size) {
  static char much[200000];
  long answer = write(fds[1], much, (size_t)size);
  written = true;
  return (void *)answer;
}

/* A blocking write is not cut short by anything that the program cannot see. */
CASE(long_writes_are_whole) {
  for (int i = 0; i < 5; i++) {
    need(pipe(fds) == 0);
    pthread_t thread = start(write_much, (void *)200000);
    long sum = 0;
    char bytes[1000];
    sleep_ms(20);
    while (sum < 200000) {
      long got = read(fds[0], bytes, sizeof bytes);
      need(got > 0);
      sum += got;
    }
    must((long)finish(thread) == 200000);
    close(fds[0]);
    close(fds[1]);
  }
  say("done");
}

CASE(receive_timeout) {
  struct timeval time = {.tv_usec = 50000};
  char byte;
  need(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
  need(setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
  for (int i = 0; i < 5; i++) {
    int64_t before = now_ns(CLOCK_MONOTONIC);
    say("recv %s", result(recv(sockets[0], &byte, 1, 0)));
    must(now_ns(CLOCK_MONOTONIC) - before >= 49000000);
  }
}

static siginfo_t child_info;
static volatile sig_atomic_t children;
static void on_child(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  child_info = *info;
  children++;
}

CASE(child_signals) {
  struct sigaction action = {.sa_sigaction = on_child, .sa_flags = SA_SIGINFO};
  sigaction(SIGCHLD, &action, NULL);
  for (int i = 0; i < 3; i++) {
    children = 0;
    pid_t child = fork();
    if (child == 0) {
      if (i == 2) raise(SIGKILL);
      _exit(i);
    }
    wait_until(children == 1);
    say("child: pid %d, code %d, status %d", child_info.si_pid == child, child_info.si_code, child_info.si_status);
    int status;
    must(waitpid(child, &status, 0) == child);
    say("child %s", ended(status));
  }
  signal(SIGCHLD, SIG_IGN);
  pid_t child = fork();
  if (child == 0) _exit(0);
  say("ignored: waitpid %s", result(waitpid(child, NULL, 0)));
}

CASE(alarms) {
  install(SIGALRM, 0);
  count = 0;
  say("alarm %u", alarm(1));
  say("pause %s", result(pause()));
  say("count %d", count);
  say("alarm %u", alarm(100));
  unsigned left = alarm(0);
  must(left >= 99 && left <= 100);
}

CASE(interval_timer) {
  struct itimerval timer = {.it_interval = {0, 5000}, .it_value = {0, 5000}}, old;
  install(SIGALRM, SA_RESTART);
  count = 0;
  int64_t before = now_ns(CLOCK_MONOTONIC);
  need(setitimer(ITIMER_REAL, &timer, NULL) == 0);
  wait_until(count >= 20);
  must(now_ns(CLOCK_MONOTONIC) - before >= 20 * 5000000);
  must(getitimer(ITIMER_REAL, &old) == 0 && old.it_interval.tv_usec == 5000);
  timer = (struct itimerval){0};
  say("stop %s", result(setitimer(ITIMER_REAL, &timer, &old)));
  int seen = count;
  sleep_ms(30);
  must(count - seen <= 1);
  say("bad time %s", result(setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {0, 1000000}}, NULL)));
  say("no such timer %s", result(setitimer(3, &timer, NULL)));
}

/* What the program's own code has in a register means nothing, also where a kernel has the result of a call to be restarted. */
static volatile sig_atomic_t at_registers;
static void look_at_registers(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info;
  ucontext_t *interrupted = context;
  at_registers += interrupted->uc_mcontext.gregs[REG_RAX] == interrupted->uc_mcontext.gregs[REG_RBX];
}

CASE(numbers_of_restarts_in_registers) {
  for (int flags = 0; flags <= SA_RESTART; flags += SA_RESTART) {
    struct sigaction action = {.sa_sigaction = look_at_registers, .sa_flags = SA_SIGINFO | flags};
    need(sigaction(SIGALRM, &action, NULL) == 0);
    for (long number = -511; number >= -517; number--) {
      struct itimerval soon = {.it_interval.tv_usec = 500, .it_value.tv_usec = 500}, off = {0};
      at_registers = 0;
      need(setitimer(ITIMER_REAL, &soon, NULL) == 0);
      long left, loops = 0;
      do {
        long count = 1000000;
        asm volatile("1: dec %1\n\tjnz 1b" : "=a"(left), "+c"(count) : "a"(number), "b"(number));
        loops++;
      } while (left == number && at_registers < 10 && loops < 100000);
      need(setitimer(ITIMER_REAL, &off, NULL) == 0);
      say("%ld with flags %x: left alone %d, seen by the handler %d", number, flags, left == number, at_registers >= 10);
    }
  }
}

/* Waits that the host makes on a thread's behalf without a carrier's place being given up, or with a time of their own. */
static int counter;
static void *write_too_much(void *unused) {
  (void)unused;
  uint64_t most = 0xfffffffffffffffe;
  say("write %s", result(write(counter, &most, sizeof most)));
  return NULL;
}
CASE(full_counter) {
  install(SIGUSR1, SA_RESTART);
  need((counter = eventfd(1, 0)) >= 0);
  for (int wait = 1; wait <= 100; wait *= 10) {
    count = 0;
    pthread_t thread = start(write_too_much, NULL);
    sleep_ms(wait);
    pthread_kill(thread, SIGUSR1);
    wait_until(count == 1);
    sleep_ms(5);
    uint64_t value;
    need(read(counter, &value, sizeof value) == sizeof value);
    finish(thread);
    need(read(counter, &value, sizeof value) == sizeof value);
    value = 1;
    need(write(counter, &value, sizeof value) == sizeof value);
  }
}

CASE(shared_word_with_time) {
  int *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  need(word != MAP_FAILED);
  for (int flags = 0; flags <= SA_RESTART; flags += SA_RESTART) {
    install(SIGALRM, flags);
    struct itimerval timer = {.it_value.tv_usec = 50000, .it_interval.tv_usec = 50000}, off = {0};
    for (int bitset = 0; bitset < 2; bitset++) {
      struct timespec span = {.tv_sec = 2}, end;
      clock_gettime(CLOCK_MONOTONIC, &end);
      end.tv_sec += 2;
      need(setitimer(ITIMER_REAL, &timer, NULL) == 0);
      long answer = bitset ? syscall(SYS_futex, word, 9 /* FUTEX_WAIT_BITSET */, 0, &end, NULL, -1)
                           : syscall(SYS_futex, word, 0 /* FUTEX_WAIT */, 0, &span);
      say("flags %x, bits %d: %s", flags, bitset, result(answer));
      need(setitimer(ITIMER_REAL, &off, NULL) == 0);
    }
  }
}
