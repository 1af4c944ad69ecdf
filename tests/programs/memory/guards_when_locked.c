//@ cpus: default
//@ root
/* All memory is locked, present and future: the host refuses markers there. */
#include "guards.h"

CASE(before_any_thread) {
  need(mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
  overflow_each(100);
}

CASE(unlocked_again) {
  need(munlockall() == 0);
  overflow_each(100);
  need(mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
  overflow_each(100);
}

CASE(fresh) {
  for (int i = 0; i < 20; i++) {
    unsigned char *at =
        mmap(NULL, 64 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    need(at != MAP_FAILED);
    int written = 0;
    for (int k = 0; k < 64 << 10; k++) written += at[k] != 0;
    must(written == 0);
    memset(at, 7, 64 << 10);
    need(munmap(at, 64 << 10) == 0);
  }
}
