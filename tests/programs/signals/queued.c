//@ forms: musl
/* rt_tgsigqueueinfo by threads that are not the first one: the order of its errors, where thread and process do not belong
 * together above all. */
#include "../check.h"

enum { NOBODY = 0x3fffffff };

static void try_all(const char *who) {
  const struct { const char *name; long pid, tid; } targets[] = {
      {"itself", getpid(), gettid()},         {"itself elsewhere", NOBODY, gettid()}, {"itself in none", 0, gettid()},
      {"itself in -1", -1, gettid()},         {"the first", getpid(), getpid()},      {"the first elsewhere", NOBODY, getpid()},
      {"the first of its parent's", getppid(), getpid()},
      {"nobody", getpid(), NOBODY},           {"nobody elsewhere", NOBODY, NOBODY},   {"none", getpid(), 0},
  };
  static const int codes[] = {SI_USER, SI_QUEUE, SI_TKILL}, signals[] = {0, 65};
  for (int i = 0; i < COUNT(targets); i++) {
    for (int k = 0; k < COUNT(codes); k++) {
      siginfo_t info = {.si_code = codes[k], .si_pid = getpid(), .si_uid = getuid()};
      for (int j = 0; j < COUNT(signals); j++)
        say("%s to %s, code %d, signal %d: %s", who, targets[i].name, codes[k], signals[j],
            result(syscall(SYS_rt_tgsigqueueinfo, targets[i].pid, targets[i].tid, signals[j], &info)));
    }
    say("%s to %s from nowhere: %s", who, targets[i].name, result(syscall(SYS_rt_tgsigqueueinfo, targets[i].pid, targets[i].tid, 0, 8)));
  }
}

static void *by_another(void *unused) {
  try_all("another");
  return unused;
}

CASE(threads_and_processes_that_do_not_fit) {
  try_all("alone");
  finish(start(by_another, NULL));
  try_all("the first");
}
