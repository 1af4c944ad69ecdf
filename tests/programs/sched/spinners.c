//@ by: tools
/* A library that brings two spinning threads into a program: cyclictest has none of its own. */
#include <pthread.h>

static void *spin(void *unused) {
  for (;;) __asm__ volatile("pause");
  return unused;
}

__attribute__((constructor)) static void begin(void) {
  for (int i = 0; i < 2; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, spin, NULL) == 0) pthread_detach(thread);
  }
}
