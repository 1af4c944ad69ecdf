//@ by: hardened
/* launcher RULE PROGRAM…: becomes the program on a host that makes no memory executable that was writable.
 *   mdwe     PR_SET_MDWE
 *   seccomp  what systemd's MemoryDenyWriteExecute refuses, by a filter */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Linux 6.3 */
enum { SET_MDWE = 65, REFUSE_EXEC_GAIN = 1 };

#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)
#define ARGUMENT(n) LOAD(offsetof(struct seccomp_data, args) + 8 * (n))
#define ANSWER(action) BPF_STMT(BPF_RET | BPF_K, action)
/* Goes on if the value is this one, else skips so many. */
#define UNLESS_EQUAL(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip)
#define UNLESS_SET(bits, skip) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, skip)

static int refuse_by_filter(void) {
  enum { BOTH = PROT_WRITE | PROT_EXEC, REFUSED = SECCOMP_RET_ERRNO | EPERM };
  struct sock_filter code[] = {
      LOAD(offsetof(struct seccomp_data, nr)),
      UNLESS_EQUAL(SYS_mmap, 5),
      ARGUMENT(2),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, BOTH),
      UNLESS_EQUAL(BOTH, 1),
      ANSWER(REFUSED),
      ANSWER(SECCOMP_RET_ALLOW),
      UNLESS_EQUAL(SYS_mprotect, 3),
      ARGUMENT(2),
      UNLESS_SET(PROT_EXEC, 9),
      ANSWER(REFUSED),
      UNLESS_EQUAL(SYS_pkey_mprotect, 3),
      ARGUMENT(2),
      UNLESS_SET(PROT_EXEC, 5),
      ANSWER(REFUSED),
      UNLESS_EQUAL(SYS_shmat, 3),
      ARGUMENT(2),
      UNLESS_SET(SHM_EXEC, 1),
      ANSWER(REFUSED),
      ANSWER(SECCOMP_RET_ALLOW),
  };
  struct sock_fprog filter = {sizeof code / sizeof *code, code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

int main(int count, char **words) {
  if (count < 3) return 99;
  int failed = 1;
  if (!strcmp(words[1], "mdwe")) failed = prctl(SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0);
  if (!strcmp(words[1], "seccomp")) failed = refuse_by_filter();
  if (!failed) execvp(words[2], words + 2);
  perror(words[failed ? 1 : 2]);
  return 99;
}
