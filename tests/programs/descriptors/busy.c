//@ privileged
//@ options: --io=epoll --hz=10
//@ cpus: default
/* A real-time thread that waits for a descriptor runs when another process makes it ready, although every CPU is busy: not
 * only when a CPU looks, as it does ten times a second here. The turns that two threads on another CPU take say how many
 * looks there have been. */
#include "../realtime.h"

enum { WARM_UP = 3, ROUNDS = 40 };

static int asked[2], answered[2];
static atomic_int last, turns;
static atomic_bool over;

static void spin_on(int cpu, int number) {
  pin_to(cpu);
  while (!atomic_load(&over))
    if (number && atomic_exchange(&last, number) != number) atomic_fetch_add(&turns, 1);
}

static int cpus[2];
static void *first(void *unused) { return spin_on(cpus[0], 1), unused; }
static void *second(void *unused) { return spin_on(cpus[0], 2), unused; }
static void *third(void *unused) { return spin_on(cpus[1], 0), unused; }

static void *converse(void *rounds) {
  pin_to(cpus[1]);
  for (int i = 0; i < (int)(long)rounds; i++) {
    char byte = 'a';
    need(write(asked[1], &byte, 1) == 1);
    need(read(answered[0], &byte, 1) == 1 && byte == 'b');
  }
  return NULL;
}

static void answer(void) {
  char byte;
  while (read(asked[0], &byte, 1) == 1) {
    byte = 'b';
    /* So that the other side waits. */
    nanosleep(&(struct timespec){0, 2000000}, NULL);
    need(write(answered[1], &byte, 1) == 1);
  }
  _exit(0);
}

CASE(a_real_time_reader_is_woken_beside_busy_cpus) {
  cpu_set_t set;
  need(sched_getaffinity(0, sizeof set, &set) == 0);
  cpus[0] = cpus[1] = first_cpu();
  for (int cpu = cpus[0]; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &set)) cpus[1] = cpu;
  need(pipe(asked) == 0 && pipe(answered) == 0);
  pid_t child = fork();
  if (child == 0) {
    close(asked[1]);
    answer();
  }
  pthread_t spinners[] = {start(first, NULL), start(second, NULL), start(third, NULL)};
  need(pthread_join(start_as(SCHED_FIFO, 50, converse, (void *)WARM_UP), NULL) == 0);
  int before = atomic_load(&turns);
  need(pthread_join(start_as(SCHED_FIFO, 50, converse, (void *)ROUNDS), NULL) == 0);
  int taken = atomic_load(&turns) - before;
  atomic_store(&over, true);
  for (int i = 0; i < 3; i++) need(pthread_join(spinners[i], NULL) == 0);
  /* With one CPU the real-time thread itself makes the others take turns. */
  if (cpus[0] != cpus[1] && taken > ROUNDS / 2) say("%d turns of fair threads in %d rounds", taken, ROUNDS);
  close(asked[1]);
  need(waitpid(child, NULL, 0) == child);
  say("answered %d times", ROUNDS);
}
