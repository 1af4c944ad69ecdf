/* Registration of the area for restartable sequences, which glibc makes for every thread. */
#include "../check.h"
#include <stddef.h>
#include <ucontext.h>

#define SIGNATURE 0x53053053
extern const ptrdiff_t __rseq_offset;
static long rseq(uint64_t area, uint32_t length, int flags, uint32_t signature) {
  return syscall(SYS_rseq, area, length, flags, signature);
}
static uint64_t own_area(void) { return (uint64_t)(uintptr_t)__builtin_thread_pointer() + (uint64_t)__rseq_offset; }

static void *registers(void *unused) {
  uint64_t own = own_area();
  static _Alignas(32) char other[64];
  uint64_t another = (uint64_t)(uintptr_t)other;
  say("again %s", result(rseq(own, 32, 0, SIGNATURE)));
  say("again, another signature %s", result(rseq(own, 32, 0, 7)));
  say("again, another length %s", result(rseq(own, 64, 0, SIGNATURE)));
  say("another area %s", result(rseq(another, 32, 0, SIGNATURE)));
  say("ends another %s", result(rseq(another, 32, 1, SIGNATURE)));
  say("ends with another length %s", result(rseq(own, 64, 1, SIGNATURE)));
  say("ends with another signature %s", result(rseq(own, 32, 1, 7)));
  say("unknown flag %s", result(rseq(own, 32, 8, SIGNATURE)));
  say("ends %s", result(rseq(own, 32, 1, SIGNATURE)));
  say("cpu %d", *(int *)(own + 4));
  say("ends twice %s", result(rseq(own, 32, 1, SIGNATURE)));
  say("nowhere %s", result(rseq(8192, 32, 0, SIGNATURE)));
  say("null %s", result(rseq(0, 32, 0, 0)));
  say("in the kernel %s", result(rseq(0xffff800000000000, 32, 0, 0)));
  say("odd %s", result(rseq(another + 8, 32, 0, SIGNATURE)));
  say("short %s", result(rseq(another, 16, 0, SIGNATURE)));
  *(uint64_t *)(other + 8) = 99;
  say("another area %s", result(rseq(another, 32, 0, SIGNATURE)));
  sched_yield();
  say("no section is left %d", *(uint64_t *)(other + 8) == 0);
  must(*(int *)(other + 4) >= 0);
  say("ends %s", result(rseq(another, 32, 1, SIGNATURE)));
  say("its own %s", result(rseq(own, 32, 0, SIGNATURE)));
  return unused;
}
CASE(first_thread) { registers(NULL); }
CASE(another_thread) { finish(start(registers, NULL)); }

/* A section that lasts until it is aborted, or until it is told to end. */
static struct {
  uint32_t version, flags;
  uint64_t start, length, abort;
} section __attribute__((aligned(32)));
static volatile uint32_t leave;
static atomic_int inside, handled, at_abort;

static void look(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info;
  at_abort += (uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] == section.abort;
  handled = 1;
}
static void stay_once(void) {
  uint64_t *in_area = (uint64_t *)(own_area() + 8);
  __asm__ volatile("lea 1f(%%rip), %%rax; mov %%rax, 8(%[section])\n"
                   "lea 2f(%%rip), %%rcx; sub %%rax, %%rcx; mov %%rcx, 16(%[section])\n"
                   "lea 3f(%%rip), %%rcx; mov %%rcx, 24(%[section])\n"
                   "mov %[section], (%[area])\n"
                   "1: cmpl $0, %[leave]; je 1b\n"
                   "2: jmp 4f\n"
                   ".byte 0x0f, 0xb9, 0x3d; .long 0x53053053\n"
                   "3: nop\n"
                   "4:"
                   :
                   : [section] "r"(&section), [area] "r"(in_area), [leave] "m"(leave)
                   : "rax", "rcx", "memory", "cc");
}
/* A preemption aborts it as well, and then it begins anew. */
static void *stay(void *unused) {
  inside = 1;
  while (!leave) stay_once();
  return unused;
}
CASE(a_handler_aborts_a_section) {
  struct sigaction action = {.sa_sigaction = look, .sa_flags = SA_SIGINFO};
  need(sigaction(SIGUSR1, &action, NULL) == 0);
  pthread_t thread = start(stay, NULL);
  wait_until(inside);
  for (int i = 0; i < 20; i++) {
    handled = 0;
    need(pthread_kill(thread, SIGUSR1) == 0);
    wait_until(handled);
  }
  leave = 1;
  finish(thread);
  /* A signal may find the thread between two sections. */
  say("most find the thread at its abort handler %d", at_abort > 10);
}
