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

/* The hole of a child is the first place where the host puts a mapping for which nobody names one. What lies below the
 * hole is farther from the stack than the gap of 1 MiB that the host keeps there (stack_guard_gap). */
enum { HOLE = 4 << 20, STACK = 1 << 14, BELOW = 8 };
static char *low_end;
static void *grow(void *unused) {
  for (int i = 1; i <= BELOW; i++) *(volatile char *)(low_end - i * PAGE) = 1;
  return unused;
}
static void grow_in_hole(void) {
  char *hole = mmap(NULL, HOLE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  need(hole != MAP_FAILED && munmap(hole, HOLE) == 0);
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED_NOREPLACE;
  low_end = hole + HOLE - STACK;
  need(mmap(low_end, STACK, PROT_READ | PROT_WRITE, flags, -1, 0) == low_end);
  pthread_attr_t how;
  pthread_t thread;
  need(pthread_attr_init(&how) == 0 && pthread_attr_setstack(&how, low_end, STACK) == 0);
  need(pthread_create(&thread, &how, grow, NULL) == 0 && pthread_join(thread, NULL) == 0);
}
CASE(first_thread_of_a_child) {
  pid_t child = fork();
  if (child == 0) {
    grow_in_hole();
    _exit(0);
  }
  int status;
  need(waitpid(child, &status, 0) == child);
  say("status %x", status);
}
