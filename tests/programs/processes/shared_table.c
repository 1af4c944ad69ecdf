//@ alone
/* Two processes with one table of descriptors (CLONE_FILES): each may leave it.
 *
 * No other test runs meanwhile: a process that a tool has asked something has a service thread from then on, and goes on sharing. */
#include "../check.h"
#include <fcntl.h>

static void end_child(const char *what, pid_t child) {
  int status;
  need(child > 0 && waitpid(child, &status, 0) == child);
  say("%s %s", what, ended(status));
}

/* The other keeps what it had. */
enum { SHARED_NUMBER = 700 };
static void leave_table(bool by_unshare, const char *who) {
  if (by_unshare) {
    say("%s unshares %s", who, result(unshare(CLONE_FILES)));
    say("%s closes %s", who, result(close(SHARED_NUMBER)));
  } else {
    say("%s closes its own %s", who, result(close_range(SHARED_NUMBER, SHARED_NUMBER, CLOSE_RANGE_UNSHARE)));
  }
  say("%s has it %d", who, fcntl(SHARED_NUMBER, F_GETFD) >= 0);
}
CASE(table_is_left) {
  for (int way = 0; way < 4; way++) {
    bool by_unshare = way & 1, by_child = way & 2;
    int go[2];
    need(pipe(go) == 0 && dup2(0, SHARED_NUMBER) == SHARED_NUMBER);
    long child = syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
      char byte;
      if (by_child) {
        leave_table(by_unshare, "child");
      } else {
        need(read(go[0], &byte, 1) == 1);
        say("child has it %d", fcntl(SHARED_NUMBER, F_GETFD) >= 0);
      }
      _exit(0);
    }
    if (!by_child) {
      leave_table(by_unshare, "parent");
      need(write(go[1], "x", 1) == 1);
    }
    end_child("child", child);
    say("parent has it %d", fcntl(SHARED_NUMBER, F_GETFD) >= 0);
    /* Now nobody shares it any more. */
    say("parent again %s", result(close_range(SHARED_NUMBER, SHARED_NUMBER, CLOSE_RANGE_UNSHARE)));
    close(go[0]), close(go[1]);
  }
}
