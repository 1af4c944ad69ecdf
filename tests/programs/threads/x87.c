/* The x87 registers of threads that begin and wait. */
#include "../check.h"
#include <sys/syscall.h>

static int ends[2];
static long double found;

static void *divide(void *unused) {
  volatile long double one = 1, ten = 10;
  found = one / ten;
  must(write(ends[1], "x", 1) == 1);
  return unused;
}

/* Reads a byte with all eight registers in use; what the first one then holds. */
static long double read_with_full_registers(void) {
  char byte;
  long result = SYS_read;
  long double first;
  __asm__ volatile(
      "fld1; fldl2t; fldl2e; fldpi; fldlg2; fldln2; fldz; fldpi\n\t"
      "syscall\n\t"
      "fstp %%st(0); fstp %%st(0); fstp %%st(0); fstp %%st(0); fstp %%st(0); fstp %%st(0); fstp %%st(0)"
      : "+a"(result), "=t"(first)
      : "D"((long)ends[0]), "S"(&byte), "d"(1L)
      : "rcx", "r11", "memory");
  must(result == 1);
  return first;
}

/* The thread that runs while another waits in the host, perhaps on a host thread that was made in the middle of that call, finds
 * all registers free. */
CASE(free_at_the_beginning) {
  must(pipe(ends) == 0);
  for (int i = 0; i < 20; i++) {
    pthread_t thread = start(divide, NULL);
    must(read_with_full_registers() == 1);
    finish(thread);
    must(found == 0.1L);
  }
  close(ends[0]), close(ends[1]);
  say("all free");
}
