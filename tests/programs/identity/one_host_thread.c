//@ root
/* A change of rights gives a process with one thread no second host thread: the host's list of threads is asked by a path that
 * is not answered with the program's own. Each atomic count of descriptors that the host makes would cost more with two. */
#include "../check.h"
#include <dirent.h>
#include <grp.h>
#include <linux/capability.h>
#include <spawn.h>
#include <sys/fsuid.h>
#include <sys/personality.h>
#include <sys/prctl.h>

static int host_threads(void) {
  DIR *list = opendir("/tmp/../proc/self/task");
  need(list != NULL);
  int count = 0;
  for (struct dirent *entry; (entry = readdir(list));) count += entry->d_name[0] != '.';
  closedir(list);
  return count;
}

static void changed(const char *what, long result) { say("%s: %ld, host threads %d", what, result, host_threads()); }

static volatile sig_atomic_t handled;

static void handle(int sig) {
  (void)sig;
  handled++;
}

static void change(void) {
  const gid_t groups[] = {5, 6};
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct capabilities[2];
  changed("nothing", 0);
  changed("PR_SET_KEEPCAPS", prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0));
  changed("PR_CAPBSET_DROP", prctl(PR_CAPBSET_DROP, CAP_SYS_BOOT, 0, 0, 0));
  changed("personality", personality(ADDR_NO_RANDOMIZE) < 0);
  changed("setgroups", setgroups(2, groups));
  changed("setfsuid", setfsuid(65534));
  changed("setfsuid back", setfsuid(0));
  changed("setresgid", setresgid(65534, 65534, 65534));
  changed("setresuid", setresuid(65534, 65534, 65534));
  changed("setuid again", setuid(65534));
  changed("setuid refused", setuid(0));
  need(syscall(SYS_capget, &header, capabilities) == 0);
  capabilities[0].permitted = capabilities[1].permitted = 0;
  changed("capset", syscall(SYS_capset, &header, capabilities));
  changed("PR_SET_NO_NEW_PRIVS", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  say("users %d %d, groups %d %d, %d more", getuid(), geteuid(), getgid(), getegid(), getgroups(0, NULL));
}

CASE(changes) {
  pid_t child = fork();
  if (child == 0) {
    change();
    _exit(0);
  }
  int status;
  need(waitpid(child, &status, 0) == child);
  say("%s", ended(status));
}

/* Programs that block all signals for a moment, also in the C library: a process that is some milliseconds old has one host thread
 * all the same. */
CASE(while_all_is_blocked) {
  pid_t child = fork();
  if (child == 0) {
    sleep_ms(20);
    sigset_t all, before;
    sigfillset(&all);
    need(sigprocmask(SIG_BLOCK, &all, &before) == 0);
    say("blocked: host threads %d", host_threads());
    pid_t made = vfork();
    if (made == 0) _exit(0);
    need(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
    need(waitpid(made, NULL, 0) == made);
    say("afterwards: host threads %d", host_threads());
    for (int i = 0; i < 3; i++) {
      char *const arguments[] = {"true", NULL};
      pid_t other;
      int status;
      need(posix_spawn(&other, "/bin/true", NULL, NULL, arguments, environ) == 0);
      need(waitpid(other, &status, 0) == other);
      say("%s, host threads %d", ended(status), host_threads());
    }
    _exit(0);
  }
  int status;
  need(waitpid(child, &status, 0) == child);
  say("%s", ended(status));
}

/* Handlers for crashes are no reason for a second one either. */
CASE(with_crash_handlers) {
  pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 4; i++) signal((int[]){SIGSEGV, SIGBUS, SIGILL, SIGFPE}[i], handle);
    sleep_ms(20);
    say("host threads %d", host_threads());
    need(kill(getpid(), SIGSEGV) == 0);
    pid_t parent = getpid(), other = fork();
    if (other == 0) {
      need(kill(parent, SIGFPE) == 0);
      _exit(0);
    }
    int status;
    need(waitpid(other, &status, 0) == other);
    for (int i = 0; i < 1000 && handled < 2; i++) sleep_ms(1);
    say("handled %d, host threads %d", (int)handled, host_threads());
    _exit(0);
  }
  int status;
  need(waitpid(child, &status, 0) == child);
  say("%s", ended(status));
}

static void *thread(void *unused) {
  say("a thread: users %d %d", getuid(), geteuid());
  return unused;
}

/* Signals and threads afterwards are as they are. */
CASE(afterwards) {
  pid_t child = fork();
  if (child == 0) {
    signal(SIGUSR1, handle);
    need(setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0);
    need(kill(getpid(), SIGUSR1) == 0);
    say("handled %d", (int)handled);
    pthread_t other;
    need(pthread_create(&other, NULL, thread, NULL) == 0 && pthread_join(other, NULL) == 0);
    need(seteuid(0) == -1);
    _exit(0);
  }
  int status;
  need(waitpid(child, &status, 0) == child);
  say("%s", ended(status));
}
