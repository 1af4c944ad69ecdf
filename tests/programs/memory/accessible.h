/* Whether a byte can be read or written, found out by trying. */
#include "../check.h"
#include <setjmp.h>

static sigjmp_buf fault;

static void on_fault(int signal) { siglongjmp(fault, signal); }

static void watch_faults(void) {
  struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK | SA_NODEFER};
  need(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0);
}

/* "zero" or "dirty" if it can be read and written, else what cannot be done. */
__attribute__((noinline)) static const char *look(char *at) {
  volatile char *byte = at;
  if (sigsetjmp(fault, 1)) return "no access";
  char was = *byte;
  if (sigsetjmp(fault, 1)) return was ? "dirty, read only" : "read only";
  *byte = was;
  return was ? "dirty" : "zero";
}
