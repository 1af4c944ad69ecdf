//@ cpus: default
/* A thread that gives the unused part of its own stack back, in the very call that the C library makes for it at its end,
 * finds zeros there. Before, a thread has ended on this stack, so that it is known to be clean. */
#include "../check.h"

enum { STACK = 8 << 20, LEFT = 64 << 10, LOOKS = 8 };

static void *nothing(void *unused) { return unused; }

static void *give_back(void *unused) {
  (void)unused;
  pthread_attr_t attr;
  void *low;
  size_t size;
  need(pthread_getattr_np(pthread_self(), &attr) == 0 && pthread_attr_getstack(&attr, &low, &size) == 0);
  pthread_attr_destroy(&attr);
  char here;
  /* The C library's call begins at the guard, which pthread_attr_getstack does not count. */
  char *from = (char *)low - sysconf(_SC_PAGESIZE);
  size_t len = ((uintptr_t)&here - (uintptr_t)from - LEFT) & ~(uintptr_t)4095;
  char *top = from + len;
  for (int i = 1; i <= LOOKS; i++) top[-4096 * i] = 1;
  int given_back = madvise(from, len, MADV_DONTNEED);
  int left = 0;
  for (int i = 1; i <= LOOKS; i++) left += top[-4096 * i];
  say("%s, %d left", given_back == 0 ? "given back" : strerror(errno), left);
  return NULL;
}

CASE(by_a_thread_that_goes_on) {
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  need(pthread_attr_setstacksize(&attr, STACK) == 0);
  for (int round = 0; round < 3; round++) {
    pthread_t t;
    need(pthread_create(&t, &attr, nothing, NULL) == 0 && pthread_join(t, NULL) == 0);
    need(pthread_create(&t, &attr, give_back, NULL) == 0 && pthread_join(t, NULL) == 0);
  }
}
