//@ status: any
//@ forms: musl
/* The first thread ends by pthread_exit; the last one's end is the program's. */
#include "../check.h"

static void *outlive(void *unused) {
  settle();
  printf("the last thread\n");
  return unused;
}

CASE(pthread_exit_of_main) {
  for (int i = 0; i < 3; i++) start(outlive, NULL);
  pthread_exit(NULL);
}
