//@ cpus: default
/* A mapping that grows down finds room below it, whatever has been mapped behind the program's back meanwhile. */
#include "../check.h"

enum { PAGE = 4096, STEPS = 600, ROOM = 64 << 20 };

static void *nothing(void *unused) { return unused; }

CASE(grows) {
  char *room = mmap(NULL, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  need(room != MAP_FAILED && munmap(room, ROOM) == 0);
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED_NOREPLACE;
  char *low = room + ROOM - PAGE;
  need(mmap(low, PAGE, PROT_READ | PROT_WRITE, flags, -1, 0) == low);
  /* Much that a kernel keeps for a program, and none of it is the program's. */
  static timer_t timers[8000];
  for (int i = 0; i < COUNT(timers); i++) {
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    int id;
    need(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &id) == 0);
    timers[i] = (timer_t)(intptr_t)id;
  }
  for (int i = 1; i <= STEPS; i++) *(volatile char *)(low - i * PAGE) = 1;
  say("grew by %d pages", STEPS);
  for (int i = 0; i < COUNT(timers); i++) need(syscall(SYS_timer_delete, (int)(intptr_t)timers[i]) == 0);
  pthread_t thread;
  need(pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0);
}
