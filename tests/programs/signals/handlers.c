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

/* The description of the extended state in a frame (struct _fpx_sw_bytes). */
struct described {
  uint32_t magic1, extended_size;
  uint64_t components;
  uint32_t size;
};

static struct described described;
static uint32_t end_marker;
static void describe(int signal, siginfo_t *info, void *context) {
  note_it(signal, info, context);
  const char *state = (const char *)((ucontext_t *)context)->uc_mcontext.fpregs;
  memcpy(&described, state + 464, sizeof described);
  memcpy(&end_marker, state + described.size, sizeof end_marker);
}

static void say_described(const char *when) {
  say("%s: %x, %x at the end, %u of %u bytes, components %llx, on it %d", when, described.magic1, end_marker,
      described.size, described.extended_size, (unsigned long long)described.components, on_alternate);
}

/* The tiles of AMX, 8 KiB, are in a frame only if the thread uses them: a stack of the size that SIGSTKSZ had for
 * decades has no room for them. */
CASE(tiles_only_where_they_are_used) {
  enum { ARCH_REQ_XCOMP_PERM = 0x1023, TILES = 18, ROWS = 16, ROW = 64 };
  stack_t stack = {.ss_sp = alternate, .ss_size = 8192};
  /* A C library may refuse one that holds no tiles. */
  need(syscall(SYS_sigaltstack, &stack, NULL) == 0);
  install(SIGUSR1, describe, SA_ONSTACK);
  raise(SIGUSR1);
  say_described("on 8 KiB");
  use_alternate();
  if (syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILES) != 0) return;
  raise(SIGUSR1);
  say_described("permitted");
  /* All tiles have 16 rows of 64 bytes. */
  static struct {
    uint8_t palette, start, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } configuration = {.palette = 1};
  for (int i = 0; i < 8; i++) configuration.row_bytes[i] = ROW, configuration.rows[i] = ROWS;
  static char in[ROWS * ROW], out[ROWS * ROW];
  for (int i = 0; i < COUNT(in); i++) in[i] = i * 7;
  long row = ROW;
  /* ldtilecfg, tileloadd, tilestored and tilerelease, which not every assembler knows. */
  __asm__ volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0x00" : : "a"(&configuration) : "memory");
  __asm__ volatile(".byte 0xc4, 0xe2, 0x7b, 0x4b, 0x04, 0x16" : : "S"(in), "d"(row) : "memory");
  raise(SIGUSR1);
  say_described("used");
  sleep_ms(1);
  __asm__ volatile(".byte 0xc4, 0xe2, 0x7a, 0x4b, 0x04, 0x16" : : "S"(out), "d"(row) : "memory");
  __asm__ volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0xc0");
  say("kept %d", memcmp(in, out, sizeof in) == 0);
}

/* The distance from the frame's address to the one that the `syscall` instruction has left; -1 if other flags are there. */
static long behind;
static void compare_registers(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info;
  const greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
  behind = registers[REG_R11] == registers[REG_EFL] ? registers[REG_RCX] - registers[REG_RIP] : -1;
}

/* The `syscall` instruction puts the address behind it and the flags into two registers. */
CASE(registers_after_a_call) {
  install(SIGUSR1, compare_registers, 0);
  raise(SIGUSR1);
  say("of the library: %ld", behind);
  long self = getpid(), answer;
  __asm__ volatile("syscall" : "=a"(answer) : "a"(SYS_kill), "D"(self), "S"(SIGUSR1) : "rcx", "r11", "memory");
  say("of the program: %ld", behind);
}

/* A call that starts over: the address is that of the instruction again. Ticks come until one of them, at most the tenth, has
 * found the wait: the first may come before it. */
static int restarted[2];
static void compare_after_restart(int signal, siginfo_t *info, void *context) {
  enum { SYSCALL = 2, TICKS = 10 };
  static int ticks;
  static bool is_over;
  if (is_over) return;
  compare_registers(signal, info, context);
  is_over = behind == SYSCALL || ++ticks == TICKS;
  if (is_over) must(write(restarted[1], "x", 1) == 1);
}

CASE(registers_of_a_call_that_restarts) {
  install(SIGALRM, compare_after_restart, SA_RESTART);
  need(pipe(restarted) == 0);
  struct itimerval often = {.it_interval.tv_usec = 20000, .it_value.tv_usec = 20000}, never = {0};
  need(setitimer(ITIMER_REAL, &often, NULL) == 0);
  char byte;
  ssize_t got = read(restarted[0], &byte, 1);
  need(setitimer(ITIMER_REAL, &never, NULL) == 0);
  say("read %zd, %ld behind", got, behind);
}

static void ignore_it(int signal, siginfo_t *info, void *context) { (void)signal, (void)info, (void)context; }

/* `iretq`, by which single steps go on, faults under this flag. */
CASE(nested_task_flag) {
  enum { TRAP = 0x100, NESTED = 0x4000 };
  install(SIGTRAP, ignore_it, 0);
  for (int trap = 0; trap <= TRAP; trap += TRAP) {
    long answer, flags = 0x202 | NESTED | trap;
    __asm__ volatile("push %[flags]\n popfq\n syscall\n pushfq\n pop %[flags]\n push $0x202\n popfq"
                     : "=a"(answer), [flags] "+r"(flags) : "0"(SYS_getppid) : "rcx", "r11", "memory", "cc");
    say("stepped %d, kept %d", trap != 0, (flags & (NESTED | TRAP)) == (NESTED | trap));
  }
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

/* It leaves 64-bit mode, and nothing knows where it was made. Some processors do not have it there: SIGILL. */
CASE(sysenter) {
  use_alternate();
  install(SIGSEGV, jump_out, SA_ONSTACK);
  install(SIGILL, jump_out, SA_ONSTACK);
  for (volatile int i = 0; i < 3; i++) {
    seen = 0;
    if (sigsetjmp(jump, 1) == 0) __asm__ volatile("xor %%ebp, %%ebp\n sysenter" : : "a"(SYS_getpid) : "memory");
    say("signal %d", seen);
  }
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
static greg_t nowhere, back_at;
static void go_nowhere(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info;
  greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
  back_at = registers[REG_RIP];
  registers[REG_RIP] = nowhere;
}
static void come_back(int signal, siginfo_t *info, void *context) {
  ucontext_t *frame = context;
  say("signal %d code %d address %p, there %d, SIGUSR1 blocked %d", signal, info->si_code, info->si_addr,
      frame->uc_mcontext.gregs[REG_RIP] == nowhere, sigismember(&frame->uc_sigmask, SIGUSR1));
  frame->uc_mcontext.gregs[REG_RIP] = back_at;
}
static void *return_nowhere(void *unused) {
  static const greg_t places[] = {1L << 47, 1L << 62, -1L << 48, -1L << 47, -4096, -1};
  for (int i = 0; i < COUNT(places); i++) {
    nowhere = places[i];
    raise(SIGUSR1);
    say("back from %#llx", nowhere);
  }
  return unused;
}
CASE(a_frame_that_leads_out_of_user_space) {
  struct sigaction leave = {.sa_sigaction = go_nowhere, .sa_flags = SA_SIGINFO};
  struct sigaction stay = {.sa_sigaction = come_back, .sa_flags = SA_SIGINFO};
  need(sigaction(SIGUSR1, &leave, NULL) == 0 && sigaction(SIGSEGV, &stay, NULL) == 0);
  return_nowhere(NULL);
  finish(start(return_nowhere, NULL));
}

CASE(reserved_bits_in_a_frame) {
  ends_by("mxcsr", spoil_mxcsr);
  ends_by("components", spoil_components);
  ends_by("compaction", spoil_compaction);
  ends_by("header", spoil_header);
  ends_by("magic", spoil_magic);
}
