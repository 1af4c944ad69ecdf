/* What Entresol refuses, it refuses as a host would that was built without it. A host may be, so that the answers
 * are compared with what is allowed here and not with each other. */
#include "../check.h"
#include <linux/seccomp.h>
#include <sys/prctl.h>

/* getpid of the 32-bit table is mkdir of the other. */
CASE(other_table) {
  long answer = 20;
  __asm__ volatile("int $0x80" : "+a"(answer) : : "memory", "r8", "r9", "r10", "r11");
  must(answer == getpid() || answer == -ENOSYS);
}

static void strict(void) {
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0) syscall(SYS_exit, 5);
  _exit(errno == EINVAL ? 5 : 6);
}

CASE(strict_mode) { in_child("child", strict); }

static void namespaces(void) {
  need(unshare(CLONE_FILES | CLONE_FS) == 0);
  int answer = unshare(CLONE_NEWNET);
  must(answer == 0 || errno == EPERM || errno == EINVAL);
}

CASE(unshare) { in_child("child", namespaces); }
