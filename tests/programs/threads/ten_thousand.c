/* Ten thousand threads at once: locks, condition variables, signals, timers, and programs that are executed meanwhile. */
//@ forms: static static-pie musl musl-static
//@ cpus: default
#include "../check.h"
#include <spawn.h>

#define THREADS 10000

extern char **environ;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER, open_gate = PTHREAD_COND_INITIALIZER;
static int here, gone, is_open;
static atomic_int handled, expired;
static __thread int own;

static void on_signal(int signal) {
  (void)signal;
  atomic_fetch_add(&handled, 1);
}

static void on_timer(int signal) {
  (void)signal;
  atomic_fetch_add(&expired, 1);
}

static void *wait_at_gate(void *number) {
  own = (int)(intptr_t)number;
  pthread_mutex_lock(&mutex);
  here++;
  pthread_cond_signal(&arrived);
  while (!is_open) pthread_cond_wait(&open_gate, &mutex);
  gone++;
  pthread_mutex_unlock(&mutex);
  return (void *)(intptr_t)own;
}

static pthread_t threads[THREADS];

CASE(at_a_gate) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  must(pthread_attr_setstacksize(&attributes, 64 << 10) == 0);
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  must(sigaction(SIGUSR1, &action, NULL) == 0);
  action.sa_handler = on_timer;
  must(sigaction(SIGALRM, &action, NULL) == 0);
  for (intptr_t i = 0; i < THREADS; i++) must(pthread_create(&threads[i], &attributes, wait_at_gate, (void *)i) == 0);
  pthread_mutex_lock(&mutex);
  while (here < THREADS) pthread_cond_wait(&arrived, &mutex);
  pthread_mutex_unlock(&mutex);
  for (int i = 0; i < THREADS; i += 100) must(pthread_kill(threads[i], SIGUSR1) == 0);
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
  must(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  struct itimerspec soon = {.it_value.tv_nsec = 1000000};
  must(timer_settime(timer, 0, &soon, NULL) == 0);
  for (int i = 0; i < 3; i++) {
    pid_t child;
    int status;
    char *words[] = {"true", NULL};
    must(posix_spawnp(&child, "true", NULL, NULL, words, environ) == 0);
    while (waitpid(child, &status, 0) < 0) must(errno == EINTR);
    must(status == 0);
  }
  while (atomic_load(&handled) < THREADS / 100 || atomic_load(&expired) == 0) sched_yield();
  pthread_mutex_lock(&mutex);
  is_open = 1;
  pthread_cond_broadcast(&open_gate);
  pthread_mutex_unlock(&mutex);
  intptr_t sum = 0;
  for (int i = 0; i < THREADS; i++) {
    void *number;
    must(pthread_join(threads[i], &number) == 0);
    sum += (intptr_t)number;
  }
  say("%d came, %d went, %d handled, sum %ld", here, gone, atomic_load(&handled), (long)sum);
}
