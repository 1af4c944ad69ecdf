/* overflow THREADS [locked]: THREADS threads at once touch the byte below their stack. Ends with 0 if all are caught. */
/* Its cases are not wanted here, only what they are made of. */
#define main cases
#include "../programs/memory/guards.h"
#undef main

__attribute__((used, section("check_cases"))) static const struct check_case none = {"none", NULL};

int main(int count, char **arguments) {
  int threads = count > 1 ? atoi(arguments[1]) : 1000;
  if (count > 2) need(mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
  overflow_each(threads);
  return caught != threads;
}
