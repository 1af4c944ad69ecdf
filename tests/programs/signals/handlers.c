//@ hardened
//@ libs: -lm
/* Handlers: on which stack, with what mask, and back again. */
//@ forms: static musl
#include "../check.h"
#include <fenv.h>
#include <setjmp.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <ucontext.h>

static void install(int signal, void (*handler)(int, siginfo_t *, void *), int flags) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
  need(sigaction(signal, &action, NULL) == 0);
}

static volatile sig_atomic_t seen, seen_code, on_alternate;
static char *volatile seen_address;
static char alternate[65536];

static void note_it(int signal, siginfo_t *info, void *context) {
  (void)context;
  char here;
  seen = signal;
  seen_code = info->si_code;
  seen_address = info->si_addr;
  on_alternate = &here >= alternate && &here < alternate + sizeof alternate;
}

static void use_alternate(void) {
  stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
  need(sigaltstack(&stack, NULL) == 0);
}

CASE(raise_is_synchronous) {
  install(SIGUSR1, note_it, 0);
  for (int i = 0; i < 1000; i++) {
    seen = 0;
    must(raise(SIGUSR1) == 0);
    must(seen == SIGUSR1);
  }
  say("code %d is SI_TKILL %d", seen_code, seen_code == SI_TKILL);
}

CASE(kill_to_self) {
  install(SIGUSR2, note_it, 0);
  for (int i = 0; i < 200; i++) {
    seen = 0;
    must(kill(getpid(), SIGUSR2) == 0);
    must(seen == SIGUSR2);
  }
  say("code %d", seen_code);
  say("no such signal %s", result(kill(getpid(), 65)));
  say("negative %s", result(kill(getpid(), -1)));
  say("nobody %s", result(kill(0x3ffffff0, 0)));
}

CASE(alternate_stack) {
  use_alternate();
  install(SIGUSR1, note_it, SA_ONSTACK);
  raise(SIGUSR1);
  say("on it %d", on_alternate);
  install(SIGUSR1, note_it, 0);
  raise(SIGUSR1);
  say("without the flag %d", on_alternate);
  stack_t old, small = {.ss_sp = alternate, .ss_size = 100}, none = {.ss_flags = SS_DISABLE};
  say("too small %s", result(sigaltstack(&small, NULL)));
  say("bad flags %s", result(sigaltstack(&(stack_t){.ss_flags = 77, .ss_sp = alternate, .ss_size = 65536}, NULL)));
  say("disable %s", result(sigaltstack(&none, &old)));
  say("old one %d, size %zu", old.ss_sp == alternate, old.ss_size);
}

static void *own_alternate(void *unused) {
  (void)unused;
  stack_t old;
  must(sigaltstack(NULL, &old) == 0);
  return (void *)(intptr_t)(old.ss_flags == SS_DISABLE);
}

CASE(alternate_stack_is_not_inherited) {
  use_alternate();
  say("a new thread has none: %ld", (long)(intptr_t)finish(start(own_alternate, NULL)));
}

static sigjmp_buf jump;
static void jump_out(int signal, siginfo_t *info, void *context) {
  note_it(signal, info, context);
  siglongjmp(jump, 1);
}

static volatile int *volatile low_address = (int *)16, *volatile strange_address = (int *)0x1234567812345678;

CASE(faults_with_siglongjmp) {
  static const struct {
    const char *name;
    int signal;
  } faults[] = {{"null", SIGSEGV}, {"read-only", SIGSEGV}, {"division", SIGFPE}, {"illegal", SIGILL},
                {"trap", SIGTRAP}, {"not canonical", SIGSEGV}, {"behind a file", SIGBUS}};
  char *read_only = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char *behind = mmap(NULL, 4096, PROT_READ, MAP_SHARED, memfd_create("empty", 0), 0);
  use_alternate();
  for (int i = 0; i < COUNT(faults); i++) install(faults[i].signal, jump_out, SA_ONSTACK);
  for (volatile int i = 0; i < COUNT(faults) * 20; i++) {
    int kind = i % COUNT(faults);
    seen = 0;
    if (sigsetjmp(jump, 1) == 0) {
      switch (kind) {
      case 0: *low_address = 1; break;
      case 1: *(volatile char *)read_only = 1; break;
      case 2: __asm__ volatile("cltd; idiv %1" : : "a"(1), "r"(0) : "rdx"); break;
      case 3: __asm__ volatile("ud2"); break;
      case 4: __asm__ volatile("int3"); break;
      case 5: *strange_address = 1; break;
      case 6: seen = *(volatile char *)behind; break;
      }
      say("%s: not noticed", faults[kind].name);
    }
    must(seen == faults[kind].signal);
    if (i >= COUNT(faults)) continue;
    bool right = kind == 0 ? seen_address == (char *)16 : kind == 1 ? seen_address == read_only : true;
    say("%s: code %d, on the alternate stack %d, address %d", faults[kind].name, seen_code, on_alternate, right);
  }
}

/* The handler repairs the cause and the instruction runs again. */
static char *guarded;
static void repair(int signal, siginfo_t *info, void *context) {
  note_it(signal, info, context);
  mprotect(guarded, 4096, PROT_READ | PROT_WRITE);
}

CASE(repaired_fault) {
  guarded = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  install(SIGSEGV, repair, 0);
  for (int i = 0; i < 100; i++) {
    mprotect(guarded, 4096, PROT_NONE);
    *(volatile char *)guarded = (char)i;
    must(guarded[0] == (char)i);
  }
  say("done");
}

/* What the handler writes into its frame is what the thread goes on with. */
static void skip_instruction(int signal, siginfo_t *info, void *argument) {
  ucontext_t *context = argument;
  note_it(signal, info, argument);
  context->uc_mcontext.gregs[REG_RIP] += 2;
  context->uc_mcontext.gregs[REG_RAX] = 4711;
}

CASE(changed_registers) {
  long value = 5;
  install(SIGILL, skip_instruction, 0);
  for (int i = 0; i < 100; i++) {
    value = 5;
    __asm__ volatile("ud2" : "+a"(value));
    must(value == 4711);
  }
  say("value %ld", value);
}

static int depth;
static void nest(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  if (++depth < 6) raise(SIGUSR1);
}

CASE(nested_with_SA_NODEFER) {
  install(SIGUSR1, nest, SA_NODEFER);
  raise(SIGUSR1);
  say("depth %d", depth);
  depth = 0;
  install(SIGUSR1, nest, 0);
  raise(SIGUSR1);
  say("without it %d", depth);
}

static sigset_t mask_in_handler;
static void look_at_mask(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  pthread_sigmask(SIG_SETMASK, NULL, &mask_in_handler);
}

CASE(mask_in_the_handler) {
  struct sigaction action = {.sa_sigaction = look_at_mask, .sa_flags = SA_SIGINFO};
  sigemptyset(&action.sa_mask);
  sigaddset(&action.sa_mask, SIGUSR2);
  sigaction(SIGUSR1, &action, NULL);
  raise(SIGUSR1);
  for (int signal = 1; signal < 65; signal++)
    if (sigismember(&mask_in_handler, signal) == 1) say("blocked %d", signal);
  pthread_sigmask(SIG_SETMASK, NULL, &mask_in_handler);
  say("afterwards %d %d", sigismember(&mask_in_handler, SIGUSR1), sigismember(&mask_in_handler, SIGUSR2));
}

CASE(one_shot) {
  struct sigaction now;
  install(SIGUSR1, note_it, SA_RESETHAND);
  raise(SIGUSR1);
  sigaction(SIGUSR1, NULL, &now);
  say("seen %d, now default %d", seen == SIGUSR1, now.sa_handler == SIG_DFL);
}

static void round_up(int signal, siginfo_t *info, void *context) {
  note_it(signal, info, context);
  fesetround(FE_UPWARD);
  volatile double value = 1.0 / 3;
  (void)value;
}

static atomic_bool stop;
static _Atomic uint64_t wrong;
static void *compute(void *unused) {
  (void)unused;
  double vector[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  while (!stop) {
    double sum = 0;
    for (int i = 0; i < 8; i++) sum += vector[i] * vector[i];
    if (sum != 204 || fegetround() != FE_TONEAREST) wrong++;
  }
  return NULL;
}

/* Handlers come and go at any instruction; what they do to floating point stays theirs. */
CASE(computation_is_not_disturbed) {
  pthread_t threads[3];
  install(SIGUSR1, round_up, SA_RESTART);
  stop = false;
  for (int i = 0; i < 3; i++) threads[i] = start(compute, NULL);
  for (int i = 0; i < 3000; i++) must(pthread_kill(threads[i % 3], SIGUSR1) == 0);
  stop = true;
  for (int i = 0; i < 3; i++) finish(threads[i]);
  say("wrong results %lu", (unsigned long)wrong);
}

struct started {
  uint16_t x87[14];
  uint32_t mxcsr;
  uint64_t vectors[32];
};
static struct started at_start;
static volatile sig_atomic_t starts;

static void see_registers(int signal) {
  (void)signal;
  struct started s;
  __asm__ volatile(".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n movdqu %%xmm\\n, 16*\\n(%0)\n .endr" ::"r"(s.vectors) : "memory");
  __asm__ volatile("fnstenv %0\n fldcw %0\n stmxcsr %1" : "+m"(s.x87), "=m"(s.mxcsr));
  at_start = s;
  starts++;
}

static void say_registers(const char *how) {
  uint64_t used = 0;
  for (int i = 0; i < COUNT(at_start.vectors); i++) used |= at_start.vectors[i];
  say("%s: x87 control %x tags %x, mxcsr %x, vectors %s", how, at_start.x87[0], at_start.x87[4], at_start.mxcsr, used ? "used" : "zero");
}

/* A handler begins with empty x87 registers and default modes, whatever it interrupts, and what it interrupts gets its own back. */
CASE(initial_registers) {
  struct sigaction action = {.sa_handler = see_registers};
  need(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGALRM, &action, NULL) == 0);
  uint32_t mxcsr = 0x7f80, before = 0x1f80;
  long call = SYS_tgkill;
  double left = 0;
  __asm__ volatile(
      "ldmxcsr %[up]\n pcmpeqd %%xmm7, %%xmm7\n .rept 8\n fld1\n .endr\n syscall\n .rept 7\n faddp\n .endr\n fstpl %[left]\n ldmxcsr %[before]"
      : "+a"(call), [left] "=m"(left)
      : "D"(getpid()), "S"(gettid()), "d"(SIGUSR1), [up] "m"(mxcsr), [before] "m"(before)
      : "rcx", "r11", "memory", "xmm7", "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)");
  say_registers("by a call");
  say("left %g", left);
  struct itimerval timer = {{0, 0}, {0, 20000}};
  int earlier = starts;
  need(setitimer(ITIMER_REAL, &timer, NULL) == 0);
  __asm__ volatile("pcmpeqd %%xmm7, %%xmm7\n .rept 8\n fld1\n .endr\n 1: cmpl %[earlier], %[starts]\n je 1b\n .rept 7\n faddp\n .endr\n fstpl %[left]"
                   : [left] "=m"(left)
                   : [starts] "m"(starts), [earlier] "r"(earlier)
                   : "memory", "xmm7", "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)");
  say_registers("in the middle of a computation");
  say("left %g", left);
}

CASE(sigaction_refused) {
  struct sigaction action = {.sa_handler = SIG_IGN};
  say("SIGKILL %s", result(sigaction(SIGKILL, &action, NULL)));
  say("SIGSTOP %s", result(sigaction(SIGSTOP, &action, NULL)));
  say("signal 0 %s", result(sigaction(0, &action, NULL)));
  say("signal 65 %s", result(sigaction(65, &action, NULL)));
  for (int signal = 32; signal <= 64; signal += 32) {
    struct {
      void *handler;
      unsigned long flags;
      void *restorer;
      unsigned long mask;
    } raw = {.handler = NULL};
    say("signal %d, raw %s", signal, result(syscall(SYS_rt_sigaction, signal, &raw, NULL, 8)));
  }
  say("wrong size %s", result(syscall(SYS_rt_sigaction, SIGUSR1, NULL, NULL, 4)));
  say("bad place %s", result(syscall(SYS_rt_sigaction, SIGUSR1, (void *)8, NULL, 8)));
}

/* The place below such a stack pointer is none, so only the other stack can take the frame. */
CASE(stack_pointer_near_zero) {
  use_alternate();
  install(SIGSEGV, jump_out, SA_ONSTACK);
  install(SIGBUS, jump_out, SA_ONSTACK);
  if (sigsetjmp(jump, 1) == 0)
    __asm__ volatile("mov %%rsp, %%rbx; mov $0x10, %%esp; push %%rax; mov %%rbx, %%rsp" ::: "rbx", "memory");
  say("first %d", (int)seen);
  if (sigsetjmp(jump, 1) == 0)
    __asm__ volatile("mov %%rsp, %%rbx; movabs $0x8000000000000000, %%rsp; push %%rax; mov %%rbx, %%rsp" ::: "rbx", "memory");
  say("second %d", (int)seen);
}

/* How a child ends that takes one signal. */
static void ends_by(const char *what, void (*handler)(int, siginfo_t *, void *)) {
  pid_t child = fork();
  need(child != -1);
  if (child == 0) {
    need(prctl(PR_SET_DUMPABLE, 0) == 0);
    signal(SIGSEGV, SIG_DFL);
    install(SIGUSR1, handler, 0);
    raise(SIGUSR1);
    _exit(3);
  }
  int status;
  need(waitpid(child, &status, 0) == child);
  say("%s: signal %d, status %d", what, WIFSIGNALED(status) ? WTERMSIG(status) : 0, WIFEXITED(status) ? WEXITSTATUS(status) : 0);
}
CASE(handler_at_no_address) { ends_by("handler", (void (*)(int, siginfo_t *, void *))0x8000000000000010); }

/* The extended state in a frame: the fxsave area, whose mxcsr is at byte 24, and the header behind it. */
static char *state_of_frame(void *context) { return (char *)((ucontext_t *)context)->uc_mcontext.fpregs; }
static void spoil_mxcsr(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info;
  *(uint32_t *)(state_of_frame(context) + 24) = UINT32_MAX;
}
static void spoil_components(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info;
  *(uint64_t *)(state_of_frame(context) + 512) = UINT64_MAX;
}
static void spoil_compaction(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info;
  *(uint64_t *)(state_of_frame(context) + 520) = 1;
}
static void spoil_header(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info;
  *(uint64_t *)(state_of_frame(context) + 528) = 1;
}
static void spoil_magic(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info;
  *(uint32_t *)(state_of_frame(context) + 464) = 0;
}
CASE(reserved_bits_in_a_frame) {
  ends_by("mxcsr", spoil_mxcsr);
  ends_by("components", spoil_components);
  ends_by("compaction", spoil_compaction);
  ends_by("header", spoil_header);
  ends_by("magic", spoil_magic);
}
