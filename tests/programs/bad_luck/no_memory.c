/* No memory for a stack: EAGAIN, and the program goes on with what it has. */
#include "../check.h"
#include <sys/resource.h>

static atomic_bool stop;
static atomic_int running;

static void *wait_here(void *unused) {
  running++;
  wait_until(stop);
  return unused;
}

static size_t address_space(void) {
  size_t pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  need(file && fscanf(file, "%zu", &pages) == 1);
  fclose(file);
  return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void limit(rlim_t bytes) {
  struct rlimit old;
  need(getrlimit(RLIMIT_AS, &old) == 0);
  need(setrlimit(RLIMIT_AS, &(struct rlimit){bytes, old.rlim_max}) == 0);
}

/* Stacks of 64 MiB, so that few fit. */
static int start_until_refused(pthread_t *threads, int most, int *error) {
  pthread_attr_t attr;
  int count = 0;
  *error = 0;
  pthread_attr_init(&attr);
  need(pthread_attr_setstacksize(&attr, 64 << 20) == 0);
  while (count < most && (*error = pthread_create(&threads[count], &attr, wait_here, NULL)) == 0) count++;
  return count;
}

CASE(address_space_is_limited) {
  static pthread_t threads[1000];
  for (int round = 0; round < 3; round++) {
    int error;
    stop = false;
    running = 0;
    limit(address_space() + (256 << 20));
    int count = start_until_refused(threads, COUNT(threads), &error);
    say("round %d: refused with %s", round, errname(error));
    wait_until(running == count);
    stop = true;
    for (int i = 0; i < count; i++) finish(threads[i]);
    limit(RLIM_INFINITY);
    stop = false;
    pthread_t thread = start(wait_here, NULL);
    stop = true;
    finish(thread);
  }
  say("goes on");
}

/* Threads that run while others cannot be born lose nothing. Each has an arena of the C library before memory is short:
 * without one even Linux's malloc may find no room. */
static atomic_int begun;
static void *count_up(void *unused) {
  (void)unused;
  free(malloc(4096));
  begun++;
  long count = 0;
  for (int i = 0; i < 2000; i++) {
    char *place = malloc(100 + i);
    if (place) memset(place, 1, 100 + i);
    count += place != NULL;
    free(place);
    if (i % 50 == 0) sched_yield();
  }
  return (void *)count;
}

CASE(others_go_on) {
  static pthread_t threads[1000];
  pthread_t workers[4];
  int error;
  stop = false;
  running = 0;
  begun = 0;
  for (int i = 0; i < 4; i++) workers[i] = start(count_up, NULL);
  wait_until(begun == 4);
  limit(address_space() + (128 << 20));
  int count = start_until_refused(threads, COUNT(threads), &error);
  for (int i = 0; i < 4; i++) must((long)finish(workers[i]) == 2000);
  stop = true;
  for (int i = 0; i < count; i++) finish(threads[i]);
  limit(RLIM_INFINITY);
  say("refused with %s", errname(error));
}

CASE(too_large_a_stack) {
  pthread_attr_t attr;
  pthread_t thread;
  pthread_attr_init(&attr);
  need(pthread_attr_setstacksize(&attr, (size_t)1 << 46) == 0);
  for (int i = 0; i < 3; i++) say("create %s", errname(pthread_create(&thread, &attr, wait_here, NULL)));
}
