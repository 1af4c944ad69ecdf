//@ flags: -mno-red-zone -fno-stack-protector -Wl,-z,now
/* Code on stacks of 2 KiB, as coroutine libraries run it, with bytes around that nobody may change: neither
 * beside the stack nor in the part of it that lies unused below the stack pointer. (Bound at start: the lazy
 * binder of libc alone needs more than 2 KiB.) */
#include "../check.h"
#include <linux/futex.h>

enum { STACK = 2048, CANARY = 512, COROUTINES = 24, THREADS = 6 };

struct coroutine {
  uint8_t below[CANARY];
  _Alignas(16) uint8_t stack[STACK];
  uint8_t above[CANARY];
  void *stack_pointer;
  struct worker *worker;
};

struct worker {
  void *stack_pointer;
  int64_t end;
  long switches, damaged;
  struct coroutine coroutines[COROUTINES];
};

/* Saves the callee-saved registers on the old stack and takes them from the new one. */
void switch_stack(void **save, void *load);
__asm__(".pushsection .text\n"
        ".globl switch_stack\n"
        ".hidden switch_stack\n"
        ".type switch_stack, @function\n"
        "switch_stack:\n"
        "  push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
        "  mov %rsp, (%rdi)\n"
        "  mov %rsi, %rsp\n"
        "  pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"
        "  ret\n"
        ".size switch_stack, .-switch_stack\n"
        ".popsection\n");

static __attribute__((noinline)) long raw_call(long number, long a, long b, long c, long d) {
  register long r10 __asm__("r10") = d;
  __asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
  return number;
}

/* Fills the stack below the red zone, waits (by computing, or in a system call), and counts what changed. The
 * first bytes of a stack are left to deeper calls of the same coroutine, which are over. */
static __attribute__((noinline)) long changed_below(uint8_t *lowest, long spins, long number, long a, long b) {
  long changed;
  register long number_ __asm__("rax") = number;
  register long spins_ __asm__("r8") = spins;
  register long a_ __asm__("r9") = a;
  register long b_ __asm__("r12") = b;
  register uint8_t *lowest_ __asm__("r13") = lowest;
  __asm__ volatile("  mov %%rax, %%rbx\n"
                   "  mov %%r13, %%rdi\n"
                   "  lea -128(%%rsp), %%rcx\n"
                   "  sub %%rdi, %%rcx\n"
                   "  mov $0x5a, %%al\n"
                   "  rep stosb\n"
                   "1: dec %%r8\n"
                   "  jg 1b\n"
                   "  test %%rbx, %%rbx\n"
                   "  js 2f\n"
                   "  mov %%rbx, %%rax\n"
                   "  mov %%r9, %%rdi\n"
                   "  mov %%r12, %%rsi\n"
                   "  mov $1, %%edx\n"
                   "  xor %%r10d, %%r10d\n"
                   "  syscall\n"
                   "2: mov %%r13, %%rdi\n"
                   "  lea -128(%%rsp), %%rcx\n"
                   "  xor %%eax, %%eax\n"
                   "3: cmp %%rdi, %%rcx\n"
                   "  je 4f\n"
                   "  cmpb $0x5a, (%%rdi)\n"
                   "  lea 1(%%rdi), %%rdi\n"
                   "  je 3b\n"
                   "  inc %%rax\n"
                   "  jmp 3b\n"
                   "4:\n"
                   : "+a"(number_), "+r"(spins_)
                   : "r"(a_), "r"(b_), "r"(lowest_)
                   : "rbx", "rcx", "rdx", "rsi", "rdi", "r10", "r11", "memory", "cc");
  changed = number_;
  return changed;
}

static __thread struct coroutine *running;

static void leave(struct coroutine *self) { switch_stack(&self->stack_pointer, self->worker->stack_pointer); }

/* Never returns: the worker drops its coroutines. */
static void body(void) {
  struct coroutine *self = running;
  static _Atomic uint32_t word;
  for (unsigned long round = (uintptr_t)self / 64;; round++) {
    struct timespec little = {0, 20000};
    long damage = 0;
    switch (round % 8) {
    case 0: damage = changed_below(self->stack, 100000, -1, 0, 0); break;
    case 1: damage = changed_below(self->stack, 1000, SYS_sched_yield, 0, 0); break;
    case 2: damage = changed_below(self->stack, 1000, SYS_nanosleep, (long)&little, 0); break;
    case 3: damage = changed_below(self->stack, 1000, SYS_futex, (long)&word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG); break;
    case 4: damage = changed_below(self->stack, 1000, SYS_getppid, 0, 0); break;
    case 5: sched_yield(); break;
    case 6: usleep(10); break;
    case 7: raw_call(SYS_futex, (long)&word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 1, 0); break;
    }
    self->worker->damaged += damage;
    leave(self);
  }
}

static void prepare(struct coroutine *coroutine, struct worker *worker) {
  memset(coroutine->below, 0xa5, CANARY);
  memset(coroutine->above, 0xc3, CANARY);
  memset(coroutine->stack, 0, STACK);
  /* Six registers, the address of body, and an alignment as after a call. */
  void **top = (void **)(coroutine->stack + STACK) - 2;
  top[0] = (void *)body;
  coroutine->stack_pointer = top - 6;
  coroutine->worker = worker;
}

static long changed_around(const struct coroutine *coroutine) {
  long changed = 0;
  for (int i = 0; i < CANARY; i++) changed += (coroutine->below[i] != 0xa5) + (coroutine->above[i] != 0xc3);
  return changed;
}

static void *work(void *argument) {
  struct worker *worker = argument;
  while (now_ns(CLOCK_MONOTONIC) < worker->end) {
    for (int i = 0; i < COROUTINES; i++) {
      running = &worker->coroutines[i];
      switch_stack(&worker->stack_pointer, running->stack_pointer);
      worker->switches++;
      worker->damaged += changed_around(&worker->coroutines[i]);
    }
  }
  return NULL;
}

CASE(no_byte_changes) {
  static struct worker workers[THREADS];
  pthread_t threads[THREADS];
  int64_t seconds = getenv("ENTRESOL_FULL") ? 20 : 2;
  for (int i = 0; i < THREADS; i++) {
    workers[i].end = now_ns(CLOCK_MONOTONIC) + seconds * 1000000000;
    for (int j = 0; j < COROUTINES; j++) prepare(&workers[i].coroutines[j], &workers[i]);
    threads[i] = start(work, &workers[i]);
  }
  long damaged = 0;
  for (int i = 0; i < THREADS; i++) {
    finish(threads[i]);
    damaged += workers[i].damaged;
    must(workers[i].switches > COROUTINES);
  }
  say("bytes changed: %ld", damaged);
}
