//@ cpus: default
/* Every system call that there may be, with arguments that mean little: the answers are the host's. Calls that change the
 * machine, end the process or send signals are left out. */
#include "../check.h"
#include <fcntl.h>

enum { NUMBERS = 470 };

static const short left_out[] = {
    /* The process's end, new processes, waits without end. */
    SYS_exit, SYS_exit_group, SYS_fork, SYS_vfork, SYS_clone, SYS_clone3, SYS_execve, SYS_execveat, SYS_rt_sigreturn,
    SYS_pause, SYS_alarm, SYS_setitimer,
    /* Signals. */
    SYS_kill, SYS_tkill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_pidfd_send_signal, SYS_ptrace,
    /* The machine. */
    SYS_reboot, SYS_sync, SYS_vhangup, SYS_syslog, SYS_sethostname, SYS_setdomainname, SYS_settimeofday,
    SYS_clock_settime, SYS_adjtimex, SYS_clock_adjtime, SYS_mount, SYS_umount2, SYS_swapon, SYS_swapoff, SYS_acct,
    SYS_kexec_load, SYS_kexec_file_load, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_quotactl,
    SYS_iopl, SYS_ioperm, SYS_modify_ldt, SYS_semget, SYS_shmget, SYS_msgget, SYS_semctl, SYS_shmctl, SYS_msgctl,
    /* Other processes. */
    SYS_setpriority, SYS_ioprio_set, SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr, SYS_prlimit64,
    SYS_process_mrelease, SYS_setpgid,
    /* The program's memory, and what the C library needs. */
    SYS_munmap, SYS_mprotect, SYS_mmap, SYS_brk, SYS_mremap, SYS_remap_file_pages, SYS_madvise, SYS_pkey_mprotect,
    SYS_arch_prctl, SYS_set_tid_address, SYS_set_robust_list, SYS_personality, SYS_prctl, 453, 462,
    /* What an interrupted wait has left, which fork hands on. */
    SYS_restart_syscall,
    /* Refused here (CAVEATS.md). */
    SYS_seccomp, SYS_unshare, SYS_setns,
};

static bool is_left_out(int number) {
  for (int i = 0; i < COUNT(left_out); i++)
    if (left_out[i] == number) return true;
  return false;
}

static const long patterns[][6] = {
    {-1, -1, -1, -1, -1, -1}, {0, 0, 0, 0, 0, 0}, {8, 8, 8, 8, 8, 8}, {1, 1, 1, 1, 1, 1}, {0, 8, 0, 0, 0, 0},
    {0, -1, 8, 8, 8, 8},      {-1, 0, 0, 0, 0, 0}, {1000000, 8, 1, 0, 8, 8}, {0, 0, 8, 8, 0, 0}, {0, 0, -1, 0, 0, 0},
};

enum { NEVER = 0, SOME = 1 << 20 };
static int *answers;

/* All patterns from `first` on. Both descriptors are of a file that nobody else has: calls that change its owner, mode or
 * length must not reach a file of the machine's. */
static void try_from(int number, int first) {
  for (int k = first; k < COUNT(patterns); k++) {
    const long *p = patterns[k];
    int own = memfd_create("own", 0);
    if (own >= 0) dup2(own, 0), dup2(own, 1);
    for (int fd = 2; fd < 64; fd++) close(fd);
    alarm(1);
    long answer = syscall(number, p[0], p[1], p[2], p[3], p[4], p[5]);
    answers[k] = answer == -1 ? -errno : answer == 0 ? SOME : SOME + 1;
    alarm(0);
  }
  _exit(0);
}

CASE(all) {
  answers = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  need(answers != MAP_FAILED);
  for (int number = 0; number < NUMBERS; number++) {
    if (is_left_out(number)) continue;
    char line[400] = "";
    for (int k = 0; k < COUNT(patterns); k++) answers[k] = NEVER;
    for (int first = 0; first < COUNT(patterns); first++) {
      pid_t child = fork();
      need(child != -1);
      if (child == 0) try_from(number, first);
      int status;
      need(waitpid(child, &status, 0) == child);
      for (; first < COUNT(patterns) && answers[first] != NEVER; first++) {
        const char *name = answers[first] < 0 ? errname(-answers[first]) : answers[first] == SOME ? "0" : "n";
        snprintf(line + strlen(line), sizeof line - strlen(line), " %s", name);
      }
      if (first < COUNT(patterns)) snprintf(line + strlen(line), sizeof line - strlen(line), " (%s)", ended(status));
    }
    say("%d:%s", number, line);
  }
}

/* Of the number the lower half counts alone. */
static long call_with(unsigned long number, long a, long b, long c, long d) {
  register long fourth asm("r10") = d;
  long answer;
  asm volatile("syscall" : "=a"(answer) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth) : "rcx", "r11", "memory");
  return answer;
}
static void *leave_by_long_number(void *unused) {
  call_with(0x700000000UL + SYS_exit, 0, 0, 0, 0);
  return unused;
}
CASE(long_numbers) {
  const unsigned long high = 0x123400000000UL;
  must(call_with(high + SYS_getpid, 0, 0, 0, 0) == getpid() && call_with(high + SYS_gettid, 0, 0, 0, 0) == gettid());
  sigset_t set;
  sigemptyset(&set), sigaddset(&set, SIGUSR1);
  say("mask: %ld", call_with(high + SYS_rt_sigprocmask, SIG_BLOCK, (long)&set, 0, 8));
  sigprocmask(SIG_BLOCK, NULL, &set);
  say("blocked: %d", sigismember(&set, SIGUSR1));
  for (int i = 0; i < 20; i++) {
    pthread_t thread = start(leave_by_long_number, NULL);
    need(pthread_join(thread, NULL) == 0);
  }
  say("yield: %ld", call_with(high + SYS_sched_yield, 0, 0, 0, 0));
  int word = 1;
  say("futex: %ld", call_with(high + SYS_futex, (long)&word, 0, 2, 0));
  say("none: %ld, %ld", call_with(-1, 0, 0, 0, 0), call_with(high + 5000, 0, 0, 0, 0));
}
