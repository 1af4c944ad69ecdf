/* Lines of the table of calls: what was called, in which way, and what it answered. */
#ifndef TRIED_H
#define TRIED_H
#include "../check.h"

/* `case: call [way] = answer`; `tests/src/table.rs` reads them. */
__attribute__((unused)) static long tried(const char *call, const char *way, long value) {
  int error = errno;
  say("%s [%s] = %s", call, way, result(value));
  errno = error;
  return value;
}

#define SYS(call, way, ...) tried(#call, way, syscall(SYS_##call __VA_OPT__(, ) __VA_ARGS__))

/* Threads that compute for as long as the case lasts, so that a thread that waits loses its CPU. */
static atomic_bool load_ends;
static pthread_t load_threads[3];
__attribute__((unused)) static void *compute(void *argument) {
  while (!load_ends) {}
  return argument;
}
__attribute__((unused)) static void load_begin(void) {
  load_ends = false;
  for (int i = 0; i < COUNT(load_threads); i++) load_threads[i] = start(compute, NULL);
}
__attribute__((unused)) static void load_end(void) {
  load_ends = true;
  for (int i = 0; i < COUNT(load_threads); i++) finish(load_threads[i]);
}
#endif
