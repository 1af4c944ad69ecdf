//@ flags: -Wl,-e,begin
//@ forms: static static-pie musl-static
/* The registers of a program that begins, where no dynamic linker prepares them, and its stack. */
#include "../check.h"
#include <sys/auxv.h>

unsigned long at_entry[16] __attribute__((visibility("hidden")));

/* The stack pointer is as it was when the real beginning is reached. */
__asm__(".text\n"
        ".globl begin\n"
        "begin:\n"
        "  mov %rax, at_entry(%rip)\n"
        "  pushfq\n"
        "  pop %rax\n"
        "  mov %rax, 8+at_entry(%rip)\n"
        "  mov %rbx, 16+at_entry(%rip)\n"
        "  mov %rcx, 24+at_entry(%rip)\n"
        "  mov %rdx, 32+at_entry(%rip)\n"
        "  mov %rsi, 40+at_entry(%rip)\n"
        "  mov %rdi, 48+at_entry(%rip)\n"
        "  mov %rbp, 56+at_entry(%rip)\n"
        "  mov %r8, 64+at_entry(%rip)\n"
        "  mov %r9, 72+at_entry(%rip)\n"
        "  mov %r10, 80+at_entry(%rip)\n"
        "  mov %r11, 88+at_entry(%rip)\n"
        "  mov %r12, 96+at_entry(%rip)\n"
        "  mov %r13, 104+at_entry(%rip)\n"
        "  mov %r14, 112+at_entry(%rip)\n"
        "  mov %r15, 120+at_entry(%rip)\n"
        "  jmp _start\n");

CASE(registers) {
  if (getauxval(AT_BASE) != 0) return;
  unsigned long flags = at_entry[1], others = 0;
  for (int i = 0; i < COUNT(at_entry); i++) others |= i == 1 ? 0 : at_entry[i];
  say("flags %lx, all others zero %d", flags, others == 0);
}

/* As runtimes without a C library look for it. */
CASE(vector_behind_the_environment) {
  char **end = environ;
  while (*end != NULL) end++;
  unsigned long pages = 0;
  for (unsigned long *entry = (unsigned long *)(end + 1); entry[0] != AT_NULL; entry += 2) {
    if (entry[0] == AT_PAGESZ) pages = entry[1];
  }
  say("pages of %lu bytes", pages);
}
