/* Thread-local storage: variables, keys, destructors. */
//@ forms: static musl musl-static
#include "../check.h"

static _Thread_local int counter = 5;
static _Thread_local char large[30000];
static _Thread_local int *pointer;

static void *count_in_tls(void *rounds) {
  must(counter == 5 && large[0] == 0 && large[29999] == 0);
  pointer = &counter;
  for (intptr_t i = 0; i < (intptr_t)rounds; i++) {
    counter++;
    large[i % 30000]++;
    if (i % 100 == 0) sched_yield();
    must(*pointer == 6 + (int)i);
  }
  return (void *)(intptr_t)counter;
}

CASE(variables) {
  pthread_t threads[8];
  for (int i = 0; i < 8; i++) threads[i] = start(count_in_tls, (void *)(intptr_t)(i * 1000));
  for (int i = 0; i < 8; i++) say("thread %d counted to %ld", i, (long)(intptr_t)finish(threads[i]));
  say("mine %d", counter);
}

static void *set_errno(void *value) {
  for (int i = 0; i < 3000; i++) {
    errno = (int)(intptr_t)value;
    if (i % 10 == 0) sched_yield();
    must(errno == (int)(intptr_t)value);
  }
  return NULL;
}

CASE(errno_is_per_thread) {
  pthread_t threads[8];
  for (intptr_t i = 0; i < 8; i++) threads[i] = start(set_errno, (void *)(i + 1));
  for (int i = 0; i < 8; i++) finish(threads[i]);
  say("done");
}

static pthread_key_t keys[3];
static atomic_int destroyed[3];
static atomic_int rounds;

static void destroy(void *value) { destroyed[(intptr_t)value - 1]++; }

static void destroy_again(void *value) {
  rounds++;
  pthread_setspecific(keys[2], value);
}

static void *set_keys(void *unused) {
  (void)unused;
  must(pthread_getspecific(keys[0]) == NULL);
  pthread_setspecific(keys[0], (void *)1);
  pthread_setspecific(keys[1], (void *)2);
  sched_yield();
  must(pthread_getspecific(keys[0]) == (void *)1);
  return NULL;
}

CASE(key_destructors) {
  pthread_t threads[20];
  for (int i = 0; i < 2; i++) must(pthread_key_create(&keys[i], destroy) == 0);
  for (int i = 0; i < 20; i++) threads[i] = start(set_keys, NULL);
  for (int i = 0; i < 20; i++) finish(threads[i]);
  say("destroyed %d and %d", destroyed[0], destroyed[1]);
  say("delete %s", errname(pthread_key_delete(keys[0])));
  say("set a deleted key %s", errname(pthread_setspecific(keys[0], (void *)1)));
}

static void *set_stubborn_key(void *unused) {
  (void)unused;
  pthread_setspecific(keys[2], (void *)3);
  return NULL;
}

CASE(destructors_that_set_again) {
  must(pthread_key_create(&keys[2], destroy_again) == 0);
  finish(start(set_stubborn_key, NULL));
  say("rounds %d", rounds);
}

CASE(all_keys) {
  pthread_key_t many[2000];
  int made = 0, error = 0;
  while (made < 2000 && (error = pthread_key_create(&many[made], NULL)) == 0) made++;
  say("keys are limited: %d, %s", made <= PTHREAD_KEYS_MAX, errname(error));
  while (made > 0) must(pthread_key_delete(many[--made]) == 0);
}

static void *exit_early(void *unused) {
  (void)unused;
  pthread_setspecific(keys[1], (void *)2);
  pthread_exit((void *)9);
}

CASE(pthread_exit_runs_destructors) {
  destroyed[1] = 0;
  must(pthread_key_create(&keys[1], destroy) == 0);
  say("value %ld", (long)(intptr_t)finish(start(exit_early, NULL)));
  say("destroyed %d", destroyed[1]);
}
