/* Memory: the allocator, streams, thread-local variables, errno, the rounding mode. */
#ifndef MEMORY_H
#define MEMORY_H

#include "torture.h"
#include <fenv.h>
#include <math.h>

enum { BLOCKS = 24, TLS_WORDS = 200 };

struct block {
  uint64_t key;
  size_t words;
  uint64_t data[];
};

static _Thread_local struct block *blocks[BLOCKS];
static _Thread_local uint64_t tls_words[TLS_WORDS], tls_key;
static _Thread_local int rounding;
static const int rounding_modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
static _Atomic(struct block *) exchange[8];

static struct block *new_block(void) {
  size_t words = 1 + dice(dice(20) == 0 ? 40000 : 300);
  struct block *block = malloc(sizeof *block + words * sizeof(uint64_t));
  if (!block) return NULL;
  block->key = next_random(&me->random);
  block->words = words;
  for (size_t i = 0; i < words; i++) block->data[i] = block->key + i;
  return block;
}

static void check_block(const struct block *block) {
  uint64_t wrong = 0;
  for (size_t i = 0; i < block->words; i++) wrong += block->data[i] != block->key + i;
  check(wrong == 0, "%llu of %zu words of a block changed", (unsigned long long)wrong, block->words);
}

/* Blocks live for a while, grow, and are freed by whoever finds them. */
static void allocate(void) {
  struct block **slot = &blocks[dice(BLOCKS)];
  if (*slot) check_block(*slot);
  if (*slot && (*slot)->words < 100000 && dice(4) == 0) {
    size_t words = (*slot)->words;
    struct block *larger = realloc(*slot, sizeof **slot + (words + 100) * sizeof(uint64_t));
    if (!larger) return;
    *slot = larger;
    check_block(larger);
    for (size_t i = words; i < words + 100; i++) larger->data[i] = larger->key + i;
    larger->words = words + 100;
    return;
  }
  struct block *handed = atomic_exchange(&exchange[dice(8)], *slot);
  if (handed) {
    check_block(handed);
    free(handed);
  }
  *slot = new_block();
}

/* The null device, with a lock and a buffer. */
static FILE *common;

/* Every thread writes a stream of its own, and now and then all the same one. */
static void print(void) {
  char *text = NULL, expected[64];
  size_t size = 0;
  FILE *stream = open_memstream(&text, &size);
  if (!stream) return;
  uint64_t start = dice(1000000), lines = 1 + dice(60), place = 0;
  for (uint64_t i = 0; i < lines; i++) fprintf(stream, "%llu %.3f;", (unsigned long long)(start + i), (double)i / 8);
  fclose(stream);
  for (uint64_t i = 0; i < lines; i++) {
    int length = snprintf(expected, sizeof expected, "%llu %.3f;", (unsigned long long)(start + i), (double)i / 8);
    check(place + length <= size && memcmp(text + place, expected, length) == 0, "a stream holds another text");
    place += length;
  }
  check(place == size, "a stream is %zu bytes long and not %llu", size, (unsigned long long)place);
  free(text);
  if (dice(4) == 0) check(fprintf(common, "%llu\n", (unsigned long long)start) > 0, "nothing written to the null device");
}

static void fill_tls(void) {
  tls_key = next_random(&me->random);
  for (int i = 0; i < TLS_WORDS; i++) tls_words[i] = tls_key * (i + 1);
}

static void look_at_tls(void) {
  for (int i = 0; i < TLS_WORDS; i++)
    check(tls_words[i] == tls_key * (i + 1), "thread-local word %d changed", i);
  if (dice(4) == 0) fill_tls();
}

static void keep_errno(void) {
  int value = 1 + (int)dice(130);
  errno = value;
  for (volatile uint64_t i = 1 + dice(30000); i > 0; i--) {}
  if (dice(2)) sched_yield();
  check(errno == value, "errno %d became %d", value, errno);
  /* A failing call sets it, and only ours. */
  if (close(-1) != -1 || errno != EBADF) broken("close(-1) left errno %d", errno);
}

/* A worker keeps its rounding mode for long, over all its other activities. */
static void round_numbers(void) {
  static const double thirds[] = {0x1.5555555555555p-2, 0x1.5555555555555p-2, 0x1.5555555555556p-2,
                                  0x1.5555555555555p-2};
  static const long double tenths[] = {0x1.999999999999999ap-4L, 0x1.9999999999999998p-4L, 0x1.999999999999999ap-4L,
                                       0x1.9999999999999998p-4L};
  volatile double one = 1, three = 3;
  volatile long double one_long = 1, ten_long = 10;
  check(fegetround() == rounding_modes[rounding], "the rounding mode %d became %d", rounding_modes[rounding], fegetround());
  for (int i = 0; i < 200; i++) {
    check(one / three == thirds[rounding], "1/3 is %a in rounding mode %d", one / three, rounding);
    check(one_long / ten_long == tenths[rounding], "1/10 is %La in rounding mode %d", one_long / ten_long, rounding);
  }
  if (dice(3) == 0) {
    rounding = (int)dice(4);
    fesetround(rounding_modes[rounding]);
  }
}

#endif
