/* Calls over two words, one of the process's own and one that other processes might share. Neither says that it is private. */
#include "futex.h"

static _Atomic uint32_t own;
static _Atomic uint32_t *shared;
enum { MOST = 100 };

static void *wait_on(void *word) {
  long answer = futex(word, FUTEX_WAIT, 0, NULL, NULL, 0);
  must(answer == 0);
  return NULL;
}

static void begin(pthread_t *threads, int count, _Atomic uint32_t *word) {
  for (int i = 0; i < count; i++) threads[i] = start(wait_on, (void *)word);
  wait_until(waiters(word, 0) == count);
}

static void prepare(void) {
  shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  need(shared != MAP_FAILED);
  own = 0;
}

/* One word is changed, waiters of both are woken. */
static void wake_op(_Atomic uint32_t *first, _Atomic uint32_t *second, int on_first, int on_second, bool holds) {
  pthread_t threads[2 * MOST];
  begin(threads, on_first, first);
  begin(threads + on_first, on_second, second);
  int operation = FUTEX_OP(FUTEX_OP_ADD, 7, FUTEX_OP_CMP_EQ, holds ? 0 : 1);
  long woken = futex((void *)first, FUTEX_WAKE_OP, MOST, (void *)(intptr_t)MOST, (void *)second, operation);
  say("woken %ld, the word is %u", woken, *second);
  say("left on the second %ld", waiters(second, 0));
  futex((void *)second, FUTEX_WAKE, MOST, NULL, NULL, 0);
  for (int i = 0; i < on_first + on_second; i++) finish(threads[i]);
  *second = 0;
}
CASE(wake_op) {
  prepare();
  wake_op(&own, shared, 1, 1, true);
  wake_op(shared, &own, 1, 1, true);
  wake_op(&own, shared, 2, 1, false);
  wake_op(shared, &own, 1, 3, false);
  wake_op(&own, shared, 80, 3, true);
  wake_op(shared, &own, 3, 80, true);
}

/* Those that are moved may wake up as well. */
static void requeue(_Atomic uint32_t *from, _Atomic uint32_t *to, int count, int wake, bool compare) {
  pthread_t threads[MOST];
  begin(threads, count, from);
  int op = compare ? FUTEX_CMP_REQUEUE : FUTEX_REQUEUE;
  say("woken and moved %ld", futex((void *)from, op, wake, (void *)(intptr_t)MOST, (void *)to, 0));
  say("left %ld", waiters(from, 0));
  futex((void *)to, FUTEX_WAKE, MOST, NULL, NULL, 0);
  for (int i = 0; i < count; i++) finish(threads[i]);
}
CASE(requeue) {
  prepare();
  requeue(&own, shared, 3, 1, true);
  requeue(shared, &own, 3, 1, true);
  requeue(&own, shared, 2, 0, false);
  requeue(shared, &own, 2, 0, false);
  requeue(&own, shared, 90, 1, true);
}

CASE(answers) {
  prepare();
  void *none = (void *)(intptr_t)1;
  say("another value %s", result(futex((void *)&own, FUTEX_CMP_REQUEUE, 1, none, (void *)shared, 5)));
  say("and the other way %s", result(futex((void *)shared, FUTEX_CMP_REQUEUE, 1, none, (void *)&own, 5)));
  say("less than nobody %s", result(futex((void *)&own, FUTEX_REQUEUE, -1, none, (void *)shared, 0)));
  say("moves less than nobody %s", result(futex((void *)&own, FUTEX_REQUEUE, 1, (void *)(intptr_t)-1, (void *)shared, 0)));
  say("odd %s", result(futex((char *)&own + 1, FUTEX_REQUEUE, 1, none, (void *)shared, 0)));
  say("no such operation %s", result(futex((void *)&own, FUTEX_WAKE_OP, 1, none, (void *)shared, 15u << 28 & 0x70000000)));
  uint32_t *read_only = mmap(NULL, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  need(read_only != MAP_FAILED);
  say("no such operation, and a word that cannot be changed %s",
      result(futex((void *)&own, FUTEX_WAKE_OP, 1, none, (void *)read_only, 7u << 28)));
  munmap(read_only, 4096);
  say("less than nobody, and no word %s", result(futex(NULL, FUTEX_REQUEUE, -1, NULL, (void *)shared, 0)));
  say("a clock %s", result(futex((void *)&own, FUTEX_REQUEUE | FUTEX_CLOCK_REALTIME, 1, none, (void *)shared, 0)));
  say("nobody there %s", result(futex((void *)&own, FUTEX_WAKE_OP, 1, none, (void *)shared, 0)));
}
