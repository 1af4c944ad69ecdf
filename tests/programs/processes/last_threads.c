/* Threads that exit at the same moment: the last one takes the process with it. They are made without the C library, which
 * counts its threads and ends the process itself. */
#include "../check.h"
#include <sched.h>
#include <sys/wait.h>

#define THREADS 3
static atomic_int missing;

__attribute__((noreturn, used)) static void leave_together(void) {
  atomic_fetch_sub(&missing, 1);
  while (atomic_load(&missing) > 0) __builtin_ia32_pause();
  asm volatile("syscall" ::"a"(SYS_exit), "D"(0) : "rcx", "r11", "memory");
  __builtin_unreachable();
}

static long begin(char *stack_top) {
  register long no_tls asm("r8") = 0, no_child asm("r10") = 0;
  long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM, id;
  asm volatile("syscall\n\t"
               "test %%rax, %%rax\n\t"
               "jnz 1f\n\t"
               "call leave_together\n"
               "1:"
               : "=a"(id)
               : "a"(SYS_clone), "D"(flags), "S"(stack_top), "d"(0), "r"(no_child), "r"(no_tls)
               : "rcx", "r11", "memory");
  return id;
}

CASE(exit_together) {
  static char stacks[THREADS - 1][4096] __attribute__((aligned(16)));
  int ended_well = 0;
  for (int i = 0; i < 300; i++) {
    pid_t child = fork();
    need(child >= 0);
    if (child == 0) {
      atomic_store(&missing, THREADS);
      for (int k = 0; k < COUNT(stacks); k++) need(begin(stacks[k] + sizeof stacks[k]) > 0);
      leave_together();
    }
    int status;
    need(waitpid(child, &status, 0) == child);
    ended_well += status == 0;
  }
  say("ended with status 0: %d of 300", ended_well);
}
