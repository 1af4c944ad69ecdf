//@ needs: libasan8 libasan.so
//@ flags: -fsanitize=address -O1
//@ status: any
//@ stderr: ignore
//@ seconds: 120
/* LeakSanitizer with many threads, whose only pointers to blocks are in registers and on stacks: nothing is a leak but what
 * nobody has. */
#include "../check.h"
#include <sanitizer/lsan_interface.h>

static atomic_int ready, done;
static pthread_barrier_t barrier;

static void *in_a_register(void *argument) {
  register char *block __asm__("rbx") = malloc(100);
  memset(block, 1, 100);
  atomic_fetch_add(&ready, 1);
  while (!atomic_load_explicit(&done, memory_order_relaxed)) __asm__ volatile("" : "+r"(block));
  free(block);
  return argument;
}

static void *on_the_stack(void *argument) {
  char *volatile block = malloc(200);
  atomic_fetch_add(&ready, 1);
  pthread_barrier_wait(&barrier);
  free(block);
  return argument;
}

static void *in_a_call(void *argument) {
  char *volatile block = malloc(300);
  atomic_fetch_add(&ready, 1);
  while (!atomic_load(&done)) usleep(1000);
  free(block);
  return argument;
}

__attribute__((noinline)) static void forget(void) {
  char *volatile block = malloc(77);
  memset(block, 7, 77);
  block = NULL;
}

CASE(blocks_of_threads) {
  enum { KINDS = 3, EACH = 6 };
  void *(*kinds[KINDS])(void *) = {in_a_register, on_the_stack, in_a_call};
  pthread_t threads[KINDS * EACH];
  pthread_barrier_init(&barrier, NULL, EACH + 1);
  for (int i = 0; i < KINDS * EACH; i++) threads[i] = start(kinds[i % KINDS], NULL);
  wait_until(ready == KINDS * EACH);
  for (int i = 0; i < 3; i++) say("leaks %d", __lsan_do_recoverable_leak_check());
  done = 1;
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < KINDS * EACH; i++) finish(threads[i]);
  say("at the end %d", __lsan_do_recoverable_leak_check());
}

CASE(forgotten_blocks) {
  for (int i = 0; i < 10; i++) forget();
  say("found %d", __lsan_do_recoverable_leak_check());
}
