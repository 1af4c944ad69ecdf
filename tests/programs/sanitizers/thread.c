//@ needs: libtsan2 libtsan.so
//@ flags: -fsanitize=thread
//@ seconds: 120
/* A sound program under ThreadSanitizer, which watches every access and every lock. */
#include "../check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static long count;
static int turn;

static void *count_up(void *unused) {
  (void)unused;
  for (int i = 0; i < 2000; i++) {
    pthread_mutex_lock(&mutex);
    count++;
    pthread_mutex_unlock(&mutex);
    free(malloc(100));
  }
  return NULL;
}

CASE(mutex) {
  pthread_t threads[6];
  for (int i = 0; i < 6; i++) threads[i] = start(count_up, NULL);
  for (int i = 0; i < 6; i++) finish(threads[i]);
  say("count %ld", count);
}

static void *take_turns(void *index) {
  for (int i = 0; i < 500; i++) {
    pthread_mutex_lock(&mutex);
    while (turn % 3 != (int)(intptr_t)index) pthread_cond_wait(&cond, &mutex);
    turn++;
    pthread_cond_broadcast(&cond);
    pthread_mutex_unlock(&mutex);
  }
  return NULL;
}

CASE(condition) {
  pthread_t threads[3];
  for (intptr_t i = 0; i < 3; i++) threads[i] = start(take_turns, (void *)i);
  for (int i = 0; i < 3; i++) finish(threads[i]);
  say("turns %d", turn);
}

static atomic_long atomic_count;
static void *count_atomically(void *unused) {
  (void)unused;
  for (int i = 0; i < 5000; i++) atomic_fetch_add(&atomic_count, 1);
  return NULL;
}

CASE(churn_with_atomics) {
  for (int round = 0; round < 20; round++) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) threads[i] = start(count_atomically, NULL);
    for (int i = 0; i < 4; i++) finish(threads[i]);
  }
  say("count %ld", (long)atomic_count);
}
