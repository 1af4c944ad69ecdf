/* Faults of the program's own: what their frames say, and the flags of the processor over faults, ticks and calls. */
#include "../check.h"
#include <fcntl.h>
#include <setjmp.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <ucontext.h>

enum { TF = 0x100, DF = 0x400, AC = 0x40000 };

static void catch(int signal, void (*handler)(int, siginfo_t *, void *)) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
  need(sigaction(signal, &action, NULL) == 0);
}

static uint64_t flags_now(void) {
  uint64_t flags;
  __asm__ volatile("pushfq\n popq %0" : "=r"(flags)::"memory");
  return flags;
}
#define set_flags(set)   __asm__ volatile("pushfq\n orl %0, (%%rsp)\n popfq" ::"i"(set) : "memory", "cc")
#define clear_flags(set) __asm__ volatile("pushfq\n andl %0, (%%rsp)\n popfq" ::"i"(~(set)) : "memory", "cc")

static sigjmp_buf back;
static char *expected;
static void describe(int signal, siginfo_t *info, void *frame) {
  clear_flags(AC);
  greg_t *r = ((ucontext_t *)frame)->uc_mcontext.gregs;
  say("signal %d code %d address %s trap %lld error %#llx cr2 %s", signal, info->si_code,
      info->si_addr == expected ? "as expected" : info->si_addr == NULL ? "none" : "elsewhere", r[REG_TRAPNO], r[REG_ERR],
      (char *)r[REG_CR2] == expected ? "as expected" : "another");
  siglongjmp(back, 1);
}
#define faults(address, ...)                                                                                   \
  do {                                                                                                         \
    expected = (char *)(address);                                                                              \
    if (sigsetjmp(back, 1) == 0) {                                                                             \
      __VA_ARGS__;                                                                                             \
      say("no fault");                                                                                         \
    }                                                                                                          \
  } while (0)

static const int fault_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};

static void all_kinds(void) {
  for (int i = 0; i < COUNT(fault_signals); i++) catch(fault_signals[i], describe);
  char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  faults(page + 8, *(volatile char *)(page + 8) = 1);
  need(mprotect(page, 4096, PROT_NONE) == 0);
  faults(page + 16, *(volatile char *)(page + 16));
  need(munmap(page, 4096) == 0);
  faults(page, *(volatile char *)page = 1);
  faults(page + 1, *(volatile char *)(page + 1));
  char *data = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  faults(data, ((void (*)(void))data)());
  faults(NULL, *(volatile char *)0x8000000000001234 = 1);
  faults(NULL, __asm__ volatile("hlt"));
  faults(NULL, __asm__ volatile("int3"));
  faults(NULL, __asm__ volatile(".byte 0xf1"));
  faults(NULL, __asm__ volatile("ud2"));
  faults(NULL, __asm__ volatile("xorl %%ecx, %%ecx\n movl $1, %%eax\n cltd\n idivl %%ecx" ::: "eax", "ecx", "edx", "cc"));
  int csr;
  faults(NULL, __asm__ volatile("stmxcsr %0\n andl $~0x200, %0\n ldmxcsr %0\n xorps %%xmm0, %%xmm0\n movl $1, %0\n"
                                "cvtsi2ss %0, %%xmm1\n divss %%xmm0, %%xmm1"
                                : "=m"(csr)::"xmm0", "xmm1"));
  __asm__ volatile("ldmxcsr %0" ::"m"((int){0x1f80}));
  char name[] = "/tmp/faults-XXXXXX";
  int fd = mkstemp(name);
  need(fd >= 0 && unlink(name) == 0);
  char *file = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
  faults(file + 100, *(volatile char *)(file + 100));
  faults(data + 1, __asm__ volatile("pushfq\n orl $0x40000, (%%rsp)\n popfq\n movl $1, 1(%0)" ::"r"(data) : "memory", "cc"));
  clear_flags(AC);
  close(fd), munmap(file, 4096), munmap(data, 4096);
}
CASE(frames) { all_kinds(); }
static void *in_thread(void *argument) {
  all_kinds();
  return argument;
}
CASE(frames_of_a_thread) {
  pthread_t thread;
  need(pthread_create(&thread, NULL, in_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

/* Linux keeps the last fault with the thread and tells every later frame of it. */
static void last_fault(int signal, siginfo_t *info, void *frame) {
  (void)info;
  greg_t *r = ((ucontext_t *)frame)->uc_mcontext.gregs;
  say("signal %d trap %lld error %#llx", signal, r[REG_TRAPNO], r[REG_ERR]);
}
CASE(frames_after_a_fault) {
  catch(SIGUSR1, last_fault);
  raise(SIGUSR1);
  catch(SIGILL, describe);
  faults(NULL, __asm__ volatile("ud2"));
  raise(SIGUSR1);
}

static volatile unsigned long long flags_seen;
static volatile int ticks, traps;
static void see_flags(int signal, siginfo_t *info, void *frame) {
  clear_flags(AC);
  (void)info;
  greg_t *r = ((ucontext_t *)frame)->uc_mcontext.gregs;
  if (signal == SIGILL) r[REG_RIP] += 2;
  else if (++ticks > 20) return;
  flags_seen = r[REG_EFL];
}
/* Between the two only instructions of this program run, which mind neither flag. */
#define flags_over(name, set, ...)                                                                             \
  do {                                                                                                         \
    flags_seen = 0;                                                                                            \
    set_flags(set);                                                                                            \
    __VA_ARGS__;                                                                                               \
    uint64_t after = flags_now();                                                                              \
    clear_flags(set);                                                                                          \
    say("%s: %#lx after it", name, after & (set));                                                             \
  } while (0)
#define raw_call(number, a, b, c)                                                                              \
  __asm__ volatile("syscall" : "=a"(answer) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory")

static void keeps_flags(void) {
  long answer;
  static char bytes[8192];
  int fds[2];
  need(pipe(fds) == 0);
  catch(SIGILL, see_flags);
  flags_over("fault with AC", AC, __asm__ volatile("ud2"));
  say("frame %#llx", flags_seen & AC);
  flags_over("fault with DF", DF, __asm__ volatile("ud2"));
  say("frame %#llx", flags_seen & DF);
  flags_over("getppid with AC", AC, raw_call(SYS_getppid, 0, 0, 0));
  flags_over("getppid with DF", DF, raw_call(SYS_getppid, 0, 0, 0));
  flags_over("uname with AC", AC, raw_call(SYS_uname, bytes + 1, 0, 0));
  flags_over("write with AC", AC, raw_call(SYS_write, fds[1], bytes + 1, 4096));
  say("%ld", answer);
  flags_over("read with DF", DF, raw_call(SYS_read, fds[0], bytes, 4096));
  say("%ld", answer);
  struct timespec moment = {0, 1000000};
  flags_over("nanosleep with AC", AC, raw_call(SYS_nanosleep, &moment, 0, 0));
  flags_over("nanosleep with DF", DF, raw_call(SYS_nanosleep, &moment, 0, 0));
  flags_over("nanosleep with both", AC | DF, raw_call(SYS_nanosleep, &moment, 0, 0));
  close(fds[0]), close(fds[1]);
}
CASE(flags_over_faults_and_calls) { keeps_flags(); }

CASE(flags_over_ticks) {
  struct itimerval every = {{0, 2000}, {0, 2000}}, none = {0};
  catch(SIGALRM, see_flags);
  for (int i = 0; i < 2; i++) {
    ticks = 0;
    need(setitimer(ITIMER_REAL, &every, NULL) == 0);
    if (i) flags_over("ticks with AC", AC, while (ticks < 20));
    else flags_over("ticks with DF", DF, while (ticks < 20));
    need(setitimer(ITIMER_REAL, &none, NULL) == 0);
    say("frame %#llx", flags_seen & (AC | DF));
  }
}

/* A call of the C library with the direction flag set: what it says of the program's memory is right. */
CASE(direction_flag_in_the_library) {
  char name[65];
  set_flags(DF);
  long parent = getppid();
  clear_flags(DF);
  must(parent == getppid());
  need(gethostname(name, sizeof name) == 0);
}

static void count_steps(int signal, siginfo_t *info, void *frame) {
  (void)signal;
  greg_t *r = ((ucontext_t *)frame)->uc_mcontext.gregs;
  traps++;
  must(info->si_code == TRAP_TRACE && r[REG_TRAPNO] == 1);
}
CASE(single_steps) {
  long answer = SYS_getppid;
  catch(SIGTRAP, count_steps);
  traps = 0;
  __asm__ volatile("pushfq\n orl $0x100, (%%rsp)\n popfq\n nop\n nop\n nop\n nop\n pushfq\n andl $~0x100, (%%rsp)\n popfq" ::
                       : "cc", "memory");
  say("%d steps", traps);
  traps = 0;
  __asm__ volatile("pushfq\n orl $0x100, (%%rsp)\n popfq\n syscall\n nop\n nop\n pushfq\n andl $~0x100, (%%rsp)\n popfq"
                   : "+a"(answer)::"rcx", "r11", "cc", "memory");
  say("%d steps over a call", traps);
  must(answer == getppid());
  traps = 0;
  set_flags(TF);
  answer = getppid();
  clear_flags(TF);
  must(answer == getppid() && traps > 5);
  struct timespec moment = {0, 3000000};
  traps = 0;
  set_flags(TF);
  int slept = nanosleep(&moment, NULL);
  for (volatile int i = 0; i < 1000; i++) {}
  clear_flags(TF);
  must(slept == 0 && traps > 4000);
}

CASE(default_actions) {
  for (int kind = 0; kind < 6; kind++) {
    int status;
    pid_t child = fork();
    if (child == 0) {
      setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
      for (int i = 0; i < COUNT(fault_signals); i++) signal(fault_signals[i], SIG_DFL);
      if (kind == 0) __asm__ volatile("int3");
      if (kind == 1) __asm__ volatile(".byte 0xf1");
      if (kind == 2) __asm__ volatile("ud2");
      if (kind == 3) __asm__ volatile("pushfq\n orl $0x100, (%%rsp)\n popfq\n nop" ::: "memory", "cc");
      if (kind == 4)
        __asm__ volatile("pushfq\n orl $0x40000, (%%rsp)\n popfq\n movl $1, 1(%%rsp)" ::: "memory", "cc");
      if (kind == 5) __asm__ volatile("hlt");
      _exit(0);
    }
    need(waitpid(child, &status, 0) == child);
    say("%d: ended by %d", kind, WTERMSIG(status));
  }
}
