/* FUTEX_WAKE_OP: every operation with every comparison. */
#include "futex.h"

static _Atomic uint32_t first, second;

static long wake_op(int wake, int wake2, uint32_t encoded) {
  return futex(&first, FUTEX_WAKE_OP | PRIVATE, wake, (void *)(intptr_t)wake2, &second, encoded);
}

static const char *const op_names[] = {"set", "add", "or", "andn", "xor"};
static const char *const cmp_names[] = {"eq", "ne", "lt", "le", "gt", "ge"};

/* One waiter on each word: the answer tells whether the comparison held. */
static void apply(int op, int cmp, uint32_t old, int oparg, int cmparg) {
  struct waiter list[2];
  second = old;
  add_waiter(&list[0], 0, &first, FUTEX_WAIT | PRIVATE, 0);
  add_waiter(&list[1], 1, &second, FUTEX_WAIT | PRIVATE, 0);
  long answer = wake_op(1, 1, FUTEX_OP((uint32_t)op, oparg, cmp, cmparg));
  say("%#x %s %d if %s %d: %s, word %#x", old, op_names[op & 7], oparg, cmp_names[cmp], cmparg, result(answer), second);
  futex_wake(&first, 1);
  futex_wake(&second, 1);
  join_waiters(list, 2);
  returned = 0;
}

static void every_comparison(int op) {
  static const uint32_t olds[] = {5, 6, 0xfffffffe};
  for (int cmp = 0; cmp < COUNT(cmp_names); cmp++)
    for (int i = 0; i < COUNT(olds); i++) apply(op, cmp, olds[i], 3, 6);
}

CASE(set) { every_comparison(FUTEX_OP_SET); }
CASE(add) { every_comparison(FUTEX_OP_ADD); }
CASE(or) { every_comparison(FUTEX_OP_OR); }
CASE(andn) { every_comparison(FUTEX_OP_ANDN); }
CASE(xor) { every_comparison(FUTEX_OP_XOR); }

CASE(signed_arguments) {
  apply(FUTEX_OP_ADD, FUTEX_OP_CMP_LT, 0, -1, 1);
  apply(FUTEX_OP_ADD, FUTEX_OP_CMP_GT, 0xffffffff, 1, -2);
  apply(FUTEX_OP_SET, FUTEX_OP_CMP_EQ, 0xfffff800, -2048, -2048);
  apply(FUTEX_OP_ANDN, FUTEX_OP_CMP_GE, 0x7fffffff, -1, 2047);
  apply(FUTEX_OP_ADD, FUTEX_OP_CMP_LE, 0x7fffffff, 2047, -1);
}

CASE(shifted_arguments) {
  static const int shifts[] = {0, 1, 15, 30, 31};
  for (int i = 0; i < COUNT(shifts); i++) apply(FUTEX_OP_OR | FUTEX_OP_OPARG_SHIFT, FUTEX_OP_CMP_EQ, 1, shifts[i], 1);
}

CASE(not_known) {
  second = 9;
  for (int op = 5; op < 8; op++)
    say("op %d: %s, word %u", op, result(wake_op(1, 1, (uint32_t)op << 28)), second);
  for (int cmp = 6; cmp < 16; cmp += 3) {
    second = 9;
    say("cmp %d: %s, word %u", cmp, result(wake_op(1, 1, FUTEX_OP(0u, 4, cmp, 0))), second);
  }
}

CASE(counts) {
  static const int counts[][2] = {{0, 0}, {1, 2}, {3, 1}, {INT_MAX, INT_MAX}, {-1, -1}};
  for (int i = 0; i < COUNT(counts); i++) {
    struct waiter list[6];
    second = 0;
    add_waiters(list, 3, &first);
    for (int j = 3; j < 6; j++) add_waiter(&list[j], j, &second, FUTEX_WAIT | PRIVATE, 0);
    long answer = wake_op(counts[i][0], counts[i][1], FUTEX_OP(FUTEX_OP_ADD, 1, FUTEX_OP_CMP_EQ, 0));
    say("%d and %d: %s; left %ld and %ld", counts[i][0], counts[i][1], result(answer), waiters(&first, PRIVATE),
        waiters(&second, PRIVATE));
    futex_wake(&first, INT_MAX);
    futex_wake(&second, INT_MAX);
    join_waiters(list, 6);
    returned = 0;
  }
}

CASE(same_word) {
  struct waiter list[3];
  add_waiters(list, 3, &first);
  long answer = futex(&first, FUTEX_WAKE_OP | PRIVATE, 1, (void *)1, &first, FUTEX_OP(FUTEX_OP_ADD, 1, FUTEX_OP_CMP_EQ, 0));
  say("%s, word %u, left %ld", result(answer), first, waiters(&first, PRIVATE));
  futex_wake(&first, INT_MAX);
  join_waiters(list, 3);
  returned = 0;
}

static void *add_often(void *unused) {
  (void)unused;
  for (int i = 0; i < 20000; i++) wake_op(1, 1, FUTEX_OP(FUTEX_OP_ADD, 1, FUTEX_OP_CMP_EQ, 0));
  return NULL;
}

CASE(is_atomic) {
  pthread_t threads[4];
  second = 0;
  for (int i = 0; i < 4; i++) threads[i] = start(add_often, NULL);
  for (int i = 0; i < 4; i++) finish(threads[i]);
  say("sum %u", second);
}
