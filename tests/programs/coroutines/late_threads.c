/* The library that late_library loads. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

static __thread int local;
static __thread char large_local[5000];
static int answer;

static void *answer_later(void *unused) {
  (void)unused;
  sched_yield();
  answer = 42;
  return 0;
}

__attribute__((constructor)) static void construct(void) {
  pthread_t thread;
  if (pthread_create(&thread, 0, answer_later, 0) == 0) pthread_join(thread, 0);
}

int constructed(void) { return answer; }

int next_local(void) {
  large_local[local % 5000] = (char)local;
  return ++local;
}

long raw_call(long number, long a, long b, long c) {
  __asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
  return number;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long sum;
static int rounds;

static void *count(void *unused) {
  (void)unused;
  for (int i = 0; i < rounds; i++) {
    pthread_mutex_lock(&mutex);
    sum++;
    if (i % 50 == 0) sched_yield();
    pthread_mutex_unlock(&mutex);
    next_local();
  }
  return (void *)(intptr_t)local;
}

long run_threads(int threads, int rounds_each) {
  pthread_t ids[64];
  sum = 0;
  rounds = rounds_each;
  for (int i = 0; i < threads; i++) pthread_create(&ids[i], 0, count, 0);
  for (int i = 0; i < threads; i++) {
    void *value;
    pthread_join(ids[i], &value);
    if ((intptr_t)value != rounds_each) return -1;
  }
  return sum;
}
