//@ needs: libtsan2 libtsan.so
//@ flags: -fsanitize=thread
//@ status: any
//@ stderr: ignore
//@ cpus: default
//@ seconds: 120
/* Two threads write one word without a lock: ThreadSanitizer says so and makes the end status 66. */
#include "../check.h"

static long word;

static void *write_it(void *unused) {
  (void)unused;
  for (int i = 0; i < 1000; i++) {
    word++;
    if (i % 100 == 0) sched_yield();
  }
  return NULL;
}

CASE(data_race) {
  pthread_t a = start(write_it, NULL), b = start(write_it, NULL);
  finish(a);
  finish(b);
  say("ended");
}
