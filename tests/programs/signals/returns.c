/* A return from a handler gives back all of the interrupted state, and takes none of the handler's to other threads. */
#include "../check.h"
#include <sys/time.h>
#include <ucontext.h>

enum { ROUNDS = 100, THREADS = 3 };

static atomic_int handled;
static void count(int signo) { (void)signo, handled++; }

static void handle(int signo, void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  need(sigaction(signo, &action, NULL) == 0);
}

static void alarm_every(int64_t microseconds) {
  struct itimerval interval = {{0, microseconds}, {0, microseconds}};
  need(setitimer(ITIMER_REAL, &interval, NULL) == 0);
}

/* Of flags that rt_sigreturn(2) leaves as they are (outside FIX_EFLAGS). The loop has no call that may lose them. */
static int lost(unsigned long flag) {
  int count = 0;
  for (int i = 0; i < ROUNDS; i++) {
    int before = handled;
    unsigned long flags;
    __asm__ volatile(
        "pushfq\n orq %[flag], (%%rsp)\n popfq\n"
        "1: cmpl %[before], %[handled]\n je 1b\n"
        "pushfq\n movq (%%rsp), %[flags]\n pushq $0x202\n popfq\n addq $8, %%rsp"
        : [flags] "=&r"(flags)
        : [flag] "r"(flag), [handled] "m"(handled), [before] "r"(before)
        : "memory", "cc");
    count += (flags & flag) == 0;
  }
  return count;
}

CASE(flags) {
  handle(SIGALRM, count);
  alarm_every(1000);
  say("ID lost %d times", lost(1 << 21));
  say("NT lost %d times", lost(1 << 14));
  alarm_every(0);
}

/* A handler that leaves the x87 stack full, with exception flags. */
static void leaves_x87_full(int signo) {
  (void)signo;
  __asm__ volatile("fld1\n fldz\n fdivrp\n fldpi\n fldpi\n fldpi\n fldpi\n fldpi\n fldpi\n fldpi");
}

static atomic_bool over;
static atomic_int found;

static void *compute(void *unused) {
  while (!over) {
    for (int i = 0; i < 16; i++) rand();
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    struct {
      uint16_t word[14];
    } x87;
    __asm__ volatile("fnstenv %0\n fldenv %0" : "+m"(x87));
    bool empty = x87.word[4] == 0xffff, without_flags = (x87.word[2] & 0x3f) == 0;
    if (!empty || !without_flags) {
      found++;
      __asm__ volatile("fninit");
    }
  }
  return unused;
}

CASE(x87_of_handlers) {
  handle(SIGUSR1, leaves_x87_full);
  handle(SIGALRM, leaves_x87_full);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) threads[i] = start(compute, NULL);
  alarm_every(200);
  int64_t until = now_ns(CLOCK_MONOTONIC) + 1500000000;
  while (now_ns(CLOCK_MONOTONIC) < until) {
    for (int i = 0; i < THREADS; i++) need(pthread_kill(threads[i], SIGUSR1) == 0);
    usleep(30);
  }
  alarm_every(0);
  over = true;
  for (int i = 0; i < THREADS; i++) finish(threads[i]);
  say("another thread's state %d times", found);
}

/* A frame that cannot be read: SIGSEGV finds the state that the return was made with. */
static void report(int signo, siginfo_t *info, void *context) {
  ucontext_t *found = context;
  uint32_t *low = found->uc_mcontext.fpregs->_xmm[0].element;
  say("signal %d, code %d, flags %llx, vector %x", signo, info->si_code,
      (unsigned long long)found->uc_mcontext.gregs[REG_EFL] & 0x244cd5, low[0]);
  fflush(stdout);
  _exit(0);
}

static void return_badly(void) {
  static char alternate[1 << 16];
  stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
  need(sigaltstack(&stack, NULL) == 0);
  struct sigaction action = {.sa_sigaction = report, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  need(sigaction(SIGSEGV, &action, NULL) == 0);
  handle(SIGUSR1, count);
  /* What the C library gives the kernel to return to: behind the handler, flags, and mask. */
  unsigned long kernels[4];
  need(syscall(SYS_rt_sigaction, SIGUSR1, NULL, kernels, 8) == 0);
  __asm__ volatile(
      "movl $0x12345678, %%eax\n movd %%eax, %%xmm0\n"
      "pushq $0x200247\n popfq\n movq $4096, %%rsp\n jmpq *%0"
      :
      : "r"(kernels[2])
      : "rax", "xmm0", "memory");
}

CASE(unreadable_frame) {
  pid_t child = fork();
  if (child == 0) return_badly();
  int status;
  need(waitpid(child, &status, 0) == child);
  say("%s", ended(status));
}
