/* Registration of the area for restartable sequences, which glibc makes for every thread. */
#include "../check.h"
#include <stddef.h>

#define SIGNATURE 0x53053053
extern const ptrdiff_t __rseq_offset;
static long rseq(uint64_t area, uint32_t length, int flags, uint32_t signature) {
  return syscall(SYS_rseq, area, length, flags, signature);
}
static uint64_t own_area(void) { return (uint64_t)(uintptr_t)__builtin_thread_pointer() + (uint64_t)__rseq_offset; }

static void *registers(void *unused) {
  uint64_t own = own_area();
  static _Alignas(32) char other[64];
  uint64_t another = (uint64_t)(uintptr_t)other;
  say("again %s", result(rseq(own, 32, 0, SIGNATURE)));
  say("again, another signature %s", result(rseq(own, 32, 0, 7)));
  say("again, another length %s", result(rseq(own, 64, 0, SIGNATURE)));
  say("another area %s", result(rseq(another, 32, 0, SIGNATURE)));
  say("ends another %s", result(rseq(another, 32, 1, SIGNATURE)));
  say("ends with another length %s", result(rseq(own, 64, 1, SIGNATURE)));
  say("ends with another signature %s", result(rseq(own, 32, 1, 7)));
  say("unknown flag %s", result(rseq(own, 32, 8, SIGNATURE)));
  say("ends %s", result(rseq(own, 32, 1, SIGNATURE)));
  say("cpu %d", *(int *)(own + 4));
  say("ends twice %s", result(rseq(own, 32, 1, SIGNATURE)));
  say("nowhere %s", result(rseq(8192, 32, 0, SIGNATURE)));
  say("null %s", result(rseq(0, 32, 0, 0)));
  say("in the kernel %s", result(rseq(0xffff800000000000, 32, 0, 0)));
  say("odd %s", result(rseq(another + 8, 32, 0, SIGNATURE)));
  say("short %s", result(rseq(another, 16, 0, SIGNATURE)));
  *(uint64_t *)(other + 8) = 99;
  say("another area %s", result(rseq(another, 32, 0, SIGNATURE)));
  sched_yield();
  say("no section is left %d", *(uint64_t *)(other + 8) == 0);
  must(*(int *)(other + 4) >= 0);
  say("ends %s", result(rseq(another, 32, 1, SIGNATURE)));
  say("its own %s", result(rseq(own, 32, 0, SIGNATURE)));
  return unused;
}
CASE(first_thread) { registers(NULL); }
CASE(another_thread) { finish(start(registers, NULL)); }
