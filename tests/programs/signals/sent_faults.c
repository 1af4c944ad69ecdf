/* The signals of faults, and 32 and 33, which the C library keeps for itself, when another process sends them. */
#include "../check.h"
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <ucontext.h>

struct kernel_action {
  void (*handler)(int, siginfo_t *, void *);
  unsigned long flags;
  void (*restorer)(void);
  uint64_t mask;
};
extern void restore_rt(void);
__asm__(".text\n nop\n restore_rt:\n mov $15, %rax\n syscall\n");

/* glibc's refuses 32 and 33. */
static void set_action(int signal, void (*handler)(int, siginfo_t *, void *)) {
  struct kernel_action action = {.handler = handler, .flags = 0x04000000 | SA_SIGINFO, .restorer = restore_rt};
  need(syscall(SYS_rt_sigaction, signal, &action, NULL, 8) == 0);
}
static int send_value(pid_t to, int signal, int value) {
  siginfo_t info = {.si_signo = signal, .si_code = SI_QUEUE};
  info.si_pid = getpid(), info.si_value.sival_int = value;
  return syscall(SYS_rt_sigqueueinfo, to, signal, &info);
}
static void block_all(void) {
  uint64_t all = ~UINT64_C(0);
  need(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, 8) == 0);
}

static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, 32, 33};

static int ready[2];
/* A child that runs `body` and then waits for signals. */
static pid_t child_that(void (*body)(int), int argument) {
  need(pipe(ready) == 0);
  pid_t child = fork();
  if (child == 0) {
    need(setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) == 0);
    body(argument);
    need(write(ready[1], "r", 1) == 1);
    for (;;) pause();
  }
  char byte;
  need(read(ready[0], &byte, 1) == 1);
  return child;
}
static void say_end(const char *what, int signal, pid_t child) {
  int status;
  need(waitpid(child, &status, 0) == child);
  if (WIFSIGNALED(status)) say("%s %d: ended by %d", what, signal, WTERMSIG(status));
  else say("%s %d: exit status %d", what, signal, WEXITSTATUS(status));
  close(ready[0]), close(ready[1]);
}

/* A program that posix_spawn() has started ignores 32 and 33. */
static void be_default(int argument) {
  (void)argument;
  for (int i = 0; i < COUNT(signals); i++) set_action(signals[i], (void *)SIG_DFL);
}
CASE(default_action) {
  for (int i = 0; i < COUNT(signals); i++) {
    pid_t child = child_that(be_default, 0);
    need(kill(child, signals[i]) == 0);
    say_end("signal", signals[i], child);
  }
}

static pid_t parent;
static void report(int signal, siginfo_t *info, void *frame) {
  (void)frame;
  int word[4] = {signal, info->si_code, info->si_pid == parent, info->si_code == SI_QUEUE ? info->si_value.sival_int : 0};
  need(write(ready[1], word, sizeof word) == sizeof word);
}
static void handle_all(int argument) {
  (void)argument;
  parent = getppid();
  for (int i = 0; i < COUNT(signals); i++) set_action(signals[i], report);
}
static void say_report(void) {
  int word[4];
  need(read(ready[0], word, sizeof word) == sizeof word);
  say("signal %d code %d from parent %d value %d", word[0], word[1], word[2], word[3]);
}
CASE(handled) {
  pid_t child = child_that(handle_all, 0);
  for (int i = 0; i < COUNT(signals); i++) {
    need(kill(child, signals[i]) == 0);
    say_report();
    need(send_value(child, signals[i], 40 + i) == 0);
    say_report();
  }
  kill(child, SIGTERM);
  say_end("then", SIGTERM, child);
}

static void spin(int argument) {
  handle_all(argument);
  need(write(ready[1], "r", 1) == 1);
  for (;;) __asm__ volatile("");
}
CASE(while_it_computes) {
  pid_t child = child_that(spin, 0);
  for (int i = 0; i < COUNT(signals); i++) {
    need(kill(child, signals[i]) == 0);
    say_report();
  }
  kill(child, SIGTERM);
  say_end("then", SIGTERM, child);
}

static void ignore_report(int signal, siginfo_t *info, void *frame) { (void)signal, (void)info, (void)frame; }
static void take_many(int argument) {
  (void)argument;
  for (int i = 0; i < COUNT(signals); i++) set_action(signals[i], ignore_report);
}
CASE(many_in_a_row) {
  pid_t child = child_that(take_many, 0);
  for (int i = 0; i < 50; i++) need(kill(child, SIGSEGV) == 0 && kill(child, SIGBUS) == 0 && kill(child, 33) == 0);
  kill(child, SIGTERM);
  say_end("then", SIGTERM, child);
}

enum { SENT = 20 };
static volatile sig_atomic_t received, total;
static int all_came[2];
static void add(int signal, siginfo_t *info, void *frame) {
  (void)signal, (void)frame;
  total = total + info->si_value.sival_int;
  received = received + 1;
  if (received == SENT) need(write(all_came[1], "a", 1) == 1);
}
static void sleep_a_bit(void) { sleep_ms(1); }
static void read_a_byte(void) {
  char byte;
  read(all_came[0], &byte, 1);
}
static void poll_it(void) { poll(&(struct pollfd){all_came[0], POLLIN, 0}, 1, -1); }
static void (*const waits[])(void) = {sleep_a_bit, read_a_byte, poll_it};
static void add_them(int how) {
  need(pipe(all_came) == 0);
  set_action(32, add), set_action(33, add);
  need(write(ready[1], "r", 1) == 1);
  while (received < SENT) waits[how]();
  _exit(total);
}
/* They queue: none merges with another, wherever the only thread of a process waits. */
CASE(queued_while_it_waits) {
  for (int how = 0; how < COUNT(waits); how++) {
    pid_t child = child_that(add_them, how);
    for (int i = 0; i < SENT / 2; i++) need(send_value(child, 32, i) == 0 && send_value(child, 33, 2 * i) == 0);
    say_end("waited", how, child);
  }
}

static int wait_for(int signal, siginfo_t *info) {
  uint64_t set = UINT64_C(1) << (signal - 1);
  return syscall(SYS_rt_sigtimedwait, &set, info, NULL, 8);
}
static void block_them(int argument) {
  (void)argument;
  block_all();
  need(write(ready[1], "r", 1) == 1);
  siginfo_t info;
  for (int i = 0; i < COUNT(signals); i++) {
    if (signals[i] == 33) continue;
    int taken = wait_for(signals[i], &info);
    say("took %d code %d value %d", taken, info.si_code, info.si_value.sival_int);
  }
  /* In which order is not said: CAVEATS. */
  int sum = 0;
  for (int i = 0; i < 4; i++) {
    need(wait_for(33, &info) == 33);
    say("took 33 code %d", info.si_code);
    sum += info.si_value.sival_int;
  }
  say("the sum of four values of 33: %d", sum);
  _exit(7);
}
CASE(blocked) {
  pid_t child = child_that(block_them, 0);
  for (int i = 0; i < COUNT(signals); i++) need(send_value(child, signals[i], i) == 0);
  for (int i = 0; i < 3; i++) need(send_value(child, 33, 100 << i) == 0);
  say_end("waited for", 0, child);
}

static void ignore(int signal) { set_action(signal, (void *)SIG_IGN); }
static void ignore_them(int argument) {
  (void)argument;
  for (int i = 0; i < COUNT(signals); i++) ignore(signals[i]);
}
CASE(ignored) {
  pid_t child = child_that(ignore_them, 0);
  for (int i = 0; i < COUNT(signals); i++) need(kill(child, signals[i]) == 0);
  sleep_ms(20);
  kill(child, SIGTERM);
  say_end("then", SIGTERM, child);
}

CASE(ignored_through_exec) {
  int status;
  pid_t child = fork();
  if (child == 0) {
    ignore_them(0);
    execl("/bin/grep", "grep", "^SigIgn", "/proc/self/status", NULL);
    _exit(99);
  }
  need(waitpid(child, &status, 0) == child);
  say("%d", status);
  child = fork();
  if (child == 0) {
    ignore_them(0);
    _exit(system("grep ^SigIgn /proc/self/status") != 0);
  }
  need(waitpid(child, &status, 0) == child);
  say("spawned %d", status);
}

static void step_over(int signal, siginfo_t *info, void *frame) {
  (void)signal, (void)info;
  ((ucontext_t *)frame)->uc_mcontext.gregs[REG_RIP] += 2;
}
static void fault_once(int argument) {
  (void)argument;
  set_action(SIGILL, step_over);
  __asm__ volatile("ud2");
  set_action(SIGILL, (void *)SIG_DFL);
}
/* The fault has been dealt with; what comes later is not it. */
CASE(after_a_fault_of_its_own) {
  pid_t child = child_that(fault_once, 0);
  kill(child, SIGILL);
  say_end("sent", SIGILL, child);
}

static void block_and_fault(int argument) {
  block_all();
  if (argument) ignore(SIGSEGV);
  __asm__ volatile("movl $1, 8" ::: "memory");
}
CASE(a_fault_cannot_be_blocked) {
  for (int ignored = 0; ignored < 2; ignored++) {
    int status;
    pid_t child = fork();
    if (child == 0) {
      setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
      block_and_fault(ignored);
      _exit(0);
    }
    need(waitpid(child, &status, 0) == child);
    say("ignored %d: ended by %d", ignored, WTERMSIG(status));
  }
}

/* A signal that the main thread takes does not end another thread's write to a FIFO, which waits for a reader. */
enum { MUCH = 300000 };
static int fifo[2], by_vector;
static _Atomic pid_t taker;
static char much[MUCH];
static void take(int signal, siginfo_t *info, void *frame) {
  (void)signal, (void)info, (void)frame;
  taker = gettid();
}
static void *write_much(void *unused) {
  struct iovec pieces[3] = {{much, 100000}, {much, 0}, {much + 100000, MUCH - 100000}};
  say("wrote %zd", by_vector ? writev(fifo[1], pieces, 3) : write(fifo[1], much, MUCH));
  close(fifo[1]);
  return unused;
}
static void open_fifo(void) {
  char name[60];
  snprintf(name, sizeof name, "/tmp/entresol-fifo-%d", getpid());
  need(mkfifo(name, 0600) == 0);
  int both = open(name, O_RDWR);
  fifo[0] = open(name, O_RDONLY), fifo[1] = open(name, O_WRONLY);
  need(both >= 0 && fifo[0] >= 0 && fifo[1] >= 0 && unlink(name) == 0 && close(both) == 0);
}
static void wait_until_full(void) {
  /* Users of many pipes get smaller ones. */
  int there = 0, room = fcntl(fifo[0], F_GETPIPE_SZ);
  wait_until(ioctl(fifo[0], FIONREAD, &there) == 0 && there == room);
  sleep_ms(5);
}
CASE(beside_a_writer) {
  for (int i = 0; i < MUCH; i++) much[i] = i * 7 + i / 251;
  for (int i = 0; i < 6; i++) set_action(signals[i], take);
  int self = syscall(SYS_pidfd_open, getpid(), 0);
  for (by_vector = 0; by_vector < 2; by_vector++) {
    open_fifo();
    pthread_t writer = start(write_much, NULL);
    wait_until_full();
    for (int i = 0; i < 6; i++) {
      taker = 0;
      need(syscall(SYS_pidfd_send_signal, self, signals[i], NULL, 0) == 0);
      wait_until(taker);
      say("%d by main %d", signals[i], taker == getpid());
    }
    static char got[MUCH];
    ssize_t sum = 0, n;
    while (sum < MUCH && (n = read(fifo[0], got + sum, MUCH - sum)) > 0) sum += n;
    finish(writer);
    say("read %zd, the same %d", sum, memcmp(got, much, MUCH) == 0);
    close(fifo[0]);
  }
}
