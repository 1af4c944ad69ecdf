//@ needs: libasan8 libasan.so
//@ flags: -fsanitize=address -fno-omit-frame-pointer
//@ seconds: 120
/* A sound program under AddressSanitizer, which replaces the allocator, watches thread stacks and looks for leaks at the end. */
#include "../check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char *list[64];

static void *shuffle(void *seed) {
  unsigned state = (unsigned)(uintptr_t)seed;
  char on_stack[200];
  for (int i = 0; i < 3000; i++) {
    state = state * 1103515245 + 12345;
    size_t size = state % 2000 + 1;
    char *block = malloc(size);
    need(block);
    memset(block, i, size);
    memset(on_stack, i, sizeof on_stack);
    pthread_mutex_lock(&mutex);
    char **slot = &list[state / 65536 % 64], *old = *slot;
    *slot = block;
    pthread_mutex_unlock(&mutex);
    free(old);
    if (i % 100 == 0) sched_yield();
    must(on_stack[199] == (char)i);
  }
  return NULL;
}

CASE(threads_and_blocks) {
  for (int round = 0; round < 5; round++) {
    pthread_t threads[6];
    for (intptr_t i = 0; i < 6; i++) threads[i] = start(shuffle, (void *)(i + round * 7));
    for (int i = 0; i < 6; i++) finish(threads[i]);
  }
  for (int i = 0; i < 64; i++) {
    free(list[i]);
    list[i] = NULL;
  }
  say("done");
}

CASE(forks) {
  for (int i = 0; i < 5; i++) {
    pid_t child = fork();
    if (child == 0) {
      finish(start(shuffle, (void *)5));
      _exit(3);
    }
    int status;
    waitpid(child, &status, 0);
    say("child %s", ended(status));
  }
}
