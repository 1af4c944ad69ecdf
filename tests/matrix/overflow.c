/* overflow THREADS [locked]: THREADS threads at once touch the byte below their stack. Ends with 0 if all are caught, or, where
 * guards are mappings, as many as Entresol makes there. */
/* Its cases are not wanted here, only what they are made of. */
#define main cases
#include "../programs/memory/guards.h"
#undef main

__attribute__((used, section("check_cases"))) static const struct check_case none = {"none", NULL};

int main(int count, char **arguments) {
  int threads = count > 1 ? atoi(arguments[1]) : 1000;
  if (count > 2) need(mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
  overflow_each(threads);
  /* A host with guard markers (MADV_GUARD_INSTALL, Linux 6.13) has one for each thread. */
  bool markers = madvise(mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096, 102) == 0;
  int guarded = markers || threads < 20478 ? threads : 20478;
  return caught != guarded;
}
