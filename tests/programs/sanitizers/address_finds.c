//@ needs: libasan8 libasan.so
//@ flags: -fsanitize=address -fno-omit-frame-pointer
//@ status: any
//@ stderr: ignore
//@ cpus: default
//@ seconds: 120
/* A thread uses memory that another freed: AddressSanitizer finds it and ends the program. */
#include "../check.h"

static char *volatile block;

static void *use_it(void *unused) {
  (void)unused;
  block[5] = 1;
  return NULL;
}

static void *free_it(void *unused) {
  (void)unused;
  free(block);
  return NULL;
}

CASE(use_after_free_by_a_thread) {
  block = malloc(100);
  finish(start(free_it, NULL));
  finish(start(use_it, NULL));
  say("not found");
}
