//@ status: any
/* The program ends by a thread other than the first, with a status of its own and what was buffered written. */
#include "../check.h"

static void *spin(void *unused) {
  for (;;) __asm__ volatile("");
  return unused;
}

static void *end_process(void *unused) {
  (void)unused;
  printf("buffered, written at the end\n");
  exit(26);
}

CASE(exit_by_a_thread) {
  for (int i = 0; i < 4; i++) start(spin, NULL);
  finish(start(end_process, NULL));
}
