/* Words that cannot be used: no call may do worse than answer. */
#include "futex.h"

static const struct {
  const char *name;
  int op;
} ops[] = {
    {"wait", FUTEX_WAIT},           {"wake", FUTEX_WAKE},
    {"wait_bitset", FUTEX_WAIT_BITSET}, {"wake_bitset", FUTEX_WAKE_BITSET},
    {"requeue", FUTEX_REQUEUE},     {"cmp_requeue", FUTEX_CMP_REQUEUE},
    {"wake_op", FUTEX_WAKE_OP},     {"lock_pi", FUTEX_LOCK_PI},
    {"lock_pi2", FUTEX_LOCK_PI2},   {"unlock_pi", FUTEX_UNLOCK_PI},
    {"trylock_pi", FUTEX_TRYLOCK_PI}, {"wait_requeue_pi", FUTEX_WAIT_REQUEUE_PI},
    {"cmp_requeue_pi", FUTEX_CMP_REQUEUE_PI},
};

static char *page(int protection) {
  char *place = mmap(NULL, 8192, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  need(place != MAP_FAILED);
  return place;
}

/* `value` does not match what a readable word holds (0), so that no wait begins; the timeout is over for the
 * same reason. A timeout's place holds the second count where an operation has one. */
static void try_all(const char *name, void *word, void *word2, int flag) {
  static struct timespec over = {0, 0};
  for (int i = 0; i < COUNT(ops); i++) {
    int op = ops[i].op;
    bool counts = op == FUTEX_REQUEUE || op == FUTEX_CMP_REQUEUE || op == FUTEX_WAKE_OP || op == FUTEX_CMP_REQUEUE_PI;
    long answer = futex(word, op | flag, 1, counts ? (void *)1 : (void *)&over, word2, 1);
    say("%s %s%s: %s", ops[i].name, name, flag ? "" : ", shared", result(answer));
  }
}

static void try_word(const char *name, void *word) {
  static _Atomic uint32_t good;
  for (int flag = 0; flag <= PRIVATE; flag += PRIVATE) {
    good = 0;
    try_all(name, word, &good, flag);
  }
}

static void try_second_word(const char *name, void *word2) {
  static _Atomic uint32_t good;
  static const int with_two[] = {4, 5, 6, 11, 12};
  static struct timespec over = {0, 0};
  for (int flag = 0; flag <= PRIVATE; flag += PRIVATE) {
    for (int i = 0; i < COUNT(with_two); i++) {
      int op = ops[with_two[i]].op;
      good = 0;
      long answer = futex(&good, op | flag, op == FUTEX_WAIT_REQUEUE_PI ? 0 : 1,
                          op == FUTEX_WAIT_REQUEUE_PI ? (void *)&over : (void *)1, word2, 0);
      say("%s, second word %s%s: %s", ops[with_two[i]].name, name, flag ? "" : ", shared", result(answer));
    }
  }
}

static void try_both(const char *name, void *word) {
  try_word(name, word);
  try_second_word(name, word);
}

CASE(null) { try_both("null", NULL); }

CASE(unmapped) {
  /* Far from where the host puts what is mapped without a place: no other thread's memory comes there meanwhile. */
  char *place = mmap((char *)0x100000000000, 8192, PROT_READ,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  need(place != MAP_FAILED);
  munmap(place, 8192);
  try_both("unmapped", place);
}

CASE(no_access) { try_both("no access", page(PROT_NONE)); }
CASE(read_only) { try_both("read-only", page(PROT_READ)); }
CASE(kernel_half) { try_both("kernel half", (void *)0xffff888000000000); }
CASE(not_canonical) { try_both("not canonical", (void *)0x1234800000000000); }
CASE(last_of_user_half) { try_both("last word of the user half", (void *)0x7ffffffffffc); }
CASE(highest) { try_both("highest word", (void *)-4L); }

CASE(unaligned) {
  char *place = page(PROT_READ | PROT_WRITE);
  for (int offset = 1; offset < 4; offset++) {
    char name[32];
    snprintf(name, sizeof name, "unaligned by %d", offset);
    try_both(name, place + offset);
  }
  try_both("unaligned, kernel half", (void *)0xffff888000000001);
}

CASE(end_of_mapping) {
  char *place = page(PROT_READ | PROT_WRITE);
  munmap(place + 4096, 4096);
  try_both("across the end", place + 4094);
  try_both("behind the end", place + 4096);
}

CASE(read_only_file) {
  int fd = memfd_create("word", 0);
  need(fd >= 0 && ftruncate(fd, 4096) == 0);
  char *place = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
  need(place != MAP_FAILED);
  try_word("read-only file", place);
  try_word("behind the end of the file", place + 4096);
}

CASE(timeouts) {
  static _Atomic uint32_t word;
  void *bad[] = {(void *)8, (void *)0xffff888000000000, page(PROT_NONE)};
  for (int i = 0; i < COUNT(bad); i++) {
    word = 0;
    say("wait %d: %s", i, result(futex(&word, FUTEX_WAIT | PRIVATE, 0, bad[i], NULL, 0)));
    const char *answer = result(futex(&word, FUTEX_LOCK_PI | PRIVATE, 0, bad[i], NULL, 0));
    say("lock_pi %d: %s, word %u", i, answer, word);
  }
}
