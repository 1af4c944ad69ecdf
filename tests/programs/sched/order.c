//@ privileged
//@ alone
/* In which order threads run: real-time threads on one CPU, where priorities alone decide. */
#include "../realtime.h"

static void *log_number(void *number) {
  note("%d", (int)(intptr_t)number);
  return NULL;
}

static void *log_and_yield(void *number) {
  for (int i = 0; i < 3; i++) {
    note("%d", (int)(intptr_t)number);
    sched_yield();
  }
  return NULL;
}

static void join_all(pthread_t *threads, int count) {
  for (int i = 0; i < count; i++) finish(threads[i]);
}

CASE(priorities_decide) {
  static const int priorities[] = {5, 30, 1, 80, 12, 30, 5};
  pthread_t threads[COUNT(priorities)];
  conduct();
  for (int i = 0; i < COUNT(priorities); i++)
    threads[i] = start_as(SCHED_FIFO, priorities[i], log_number, (void *)(intptr_t)(priorities[i] * 10 + i));
  join_all(threads, COUNT(priorities));
  say_log("order (priority, index)");
}

/* Each is born with its creator's priority and then lowered by it: Linux puts a lowered thread at the head of its
 * new list, so the last comes first. */
CASE(lowered_threads_go_to_the_head) {
  pthread_t threads[10];
  conduct();
  for (intptr_t i = 0; i < 10; i++) threads[i] = start_as(SCHED_FIFO, 10, log_number, (void *)i);
  join_all(threads, 10);
  say_log("order");
}

CASE(yield_goes_behind_equals) {
  pthread_t threads[4];
  conduct();
  for (intptr_t i = 0; i < 4; i++) threads[i] = start_as(SCHED_FIFO, i == 3 ? 9 : 10, log_and_yield, (void *)i);
  join_all(threads, 4);
  say_log("order");
}

static sem_t start_line[8];

static void *wait_and_log(void *number) {
  int me = (int)(intptr_t)number;
  sem_wait(&start_line[me]);
  note("%d", me);
  return NULL;
}

/* Woken threads queue in the order of their wake-ups. */
CASE(order_of_wake_ups) {
  static const int order[] = {3, 0, 4, 1, 2};
  pthread_t threads[5];
  conduct();
  for (intptr_t i = 0; i < 5; i++) {
    sem_init(&start_line[i], 0, 0);
    threads[i] = start_as(SCHED_FIFO, 10, wait_and_log, (void *)i);
  }
  let_others_run();
  for (int i = 0; i < 5; i++) sem_post(&start_line[order[i]]);
  join_all(threads, 5);
  say_log("order");
}

static void *wake_and_log(void *priority_of_woken) {
  note("before");
  sem_post(&start_line[0]);
  note("after-%d", (int)(intptr_t)priority_of_woken);
  return NULL;
}

/* Only a higher priority preempts its waker. */
CASE(wake_up_preempts) {
  for (int priority = 9; priority <= 11; priority++) {
    pthread_t threads[2];
    conduct();
    sem_init(&start_line[0], 0, 0);
    threads[0] = start_as(SCHED_FIFO, priority, wait_and_log, (void *)0);
    let_others_run();
    threads[1] = start_as(SCHED_FIFO, 10, wake_and_log, (void *)(intptr_t)priority);
    join_all(threads, 2);
    say_log("order");
  }
}

static void *raise_the_low(void *thread) {
  note("waker");
  struct sched_param param = {.sched_priority = 40};
  must(pthread_setschedparam(*(pthread_t *)thread, SCHED_FIFO, &param) == 0);
  note("waker-end");
  return NULL;
}

CASE(raised_thread_preempts) {
  pthread_t threads[2];
  conduct();
  threads[0] = start_as(SCHED_FIFO, 5, log_number, (void *)5);
  threads[1] = start_as(SCHED_FIFO, 20, raise_the_low, &threads[0]);
  join_all(threads, 2);
  say_log("order");
}

static void *lower_myself(void *unused) {
  (void)unused;
  note("high");
  struct sched_param param = {.sched_priority = 5};
  must(pthread_setschedparam(pthread_self(), SCHED_FIFO, &param) == 0);
  note("low");
  return NULL;
}

CASE(lowered_thread_gives_way) {
  pthread_t threads[3];
  conduct();
  threads[0] = start_as(SCHED_FIFO, 20, lower_myself, NULL);
  threads[1] = start_as(SCHED_FIFO, 10, log_number, (void *)10);
  threads[2] = start_as(SCHED_FIFO, 5, log_number, (void *)5);
  join_all(threads, 3);
  say_log("order");
}

static atomic_bool stop;
static atomic_int running;

/* Computes for a quarter of a second, counted without the times when others ran, and notes each turn. */
static void *spin_a_while(void *number) {
  int me = (int)(intptr_t)number;
  int64_t before = now_ns(CLOCK_MONOTONIC), used = 0;
  while (used < 250000000) {
    if (running != me) {
      running = me;
      note("%d", me);
    }
    int64_t now = now_ns(CLOCK_MONOTONIC);
    if (now - before < 1000000) used += now - before;
    before = now;
  }
  return NULL;
}

/* Round-robin threads of one priority take turns. A slice is 100 ms, so each has at least two turns; where the
 * host takes time away there may be more. */
CASE(round_robin_takes_turns) {
  running = 0;
  pthread_t threads[3];
  conduct();
  for (intptr_t i = 0; i < 3; i++) threads[i] = start_as(SCHED_RR, 10, spin_a_while, (void *)(i + 1));
  join_all(threads, 3);
  logged_bytes = 6 * 2;
  say_log("the first six turns");
}

CASE(fifo_takes_none) {
  running = 0;
  pthread_t threads[3];
  conduct();
  for (intptr_t i = 0; i < 3; i++) threads[i] = start_as(SCHED_FIFO, 10, spin_a_while, (void *)(i + 1));
  join_all(threads, 3);
  say_log("turns");
}

static void *spin_until_stop(void *unused) {
  while (!stop) {}
  return unused;
}

static void *stop_them(void *unused) {
  stop = true;
  return unused;
}

/* Ordinary threads keep no real-time thread from running, however many they are. */
CASE(real_time_before_ordinary) {
  pthread_t threads[6];
  conduct();
  stop = false;
  for (int i = 0; i < 5; i++) threads[i] = start_as(SCHED_OTHER, 0, spin_until_stop, NULL);
  sleep_ms(20);
  threads[5] = start_as(SCHED_FIFO, 1, stop_them, NULL);
  join_all(threads, 6);
  say("all ended");
}

static atomic_bool on_cpu[64];
static void *show_where(void *unused) {
  while (!stop) on_cpu[sched_getcpu() % 64] = true;
  return unused;
}

static bool all_used(int cpus) {
  int used = 0;
  for (int i = 0; i < 64; i++) used += on_cpu[i];
  return used == cpus;
}

/* On all CPUs: as many real-time spinners as CPUs run at the same time, one on each. */
CASE(spread_over_the_cpus) {
  cpu_set_t set;
  pthread_t threads[64];
  need(sched_getaffinity(0, sizeof set, &set) == 0);
  int cpus = CPU_COUNT(&set) > 64 ? 64 : CPU_COUNT(&set), ms = 0;
  set_priority(0, SCHED_FIFO, 90);
  stop = false;
  for (int i = 0; i < cpus; i++) threads[i] = start_as(SCHED_FIFO, 20, show_where, NULL);
  for (; !all_used(cpus) && ms < 10000; ms++) sleep_ms(1);
  stop = true;
  join_all(threads, cpus);
  say("every CPU was used: %d", all_used(cpus));
}
