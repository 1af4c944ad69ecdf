/* What the files of one's own threads say. */
#include "../check.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>

static pid_t tid_of_other;
static atomic_int ready, leave;

static void *other(void *arg) {
  (void)arg;
  need(pthread_setname_np(pthread_self(), "a (b) c) d") == 0);
  tid_of_other = gettid();
  atomic_store(&ready, 1);
  while (!atomic_load(&leave)) syscall(SYS_futex, &leave, 0 | 128, 0, NULL, NULL, 0);
  return NULL;
}

static pthread_t begin(void) {
  atomic_store(&ready, 0), atomic_store(&leave, 0);
  pthread_t thread = start(other, NULL);
  wait_until(atomic_load(&ready));
  settle();
  return thread;
}

static void end(pthread_t thread) {
  atomic_store(&leave, 1);
  syscall(SYS_futex, &leave, 1 | 128, 100, NULL, NULL, 0);
  finish(thread);
}

static char text[16384];

static ssize_t read_path(const char *path) {
  int fd = open(path, O_RDONLY);
  if (fd < 0) return -1;
  ssize_t len = 0, n;
  while ((n = read(fd, text + len, sizeof text - 1 - len)) > 0) len += n;
  text[len] = 0;
  close(fd);
  return len;
}

static ssize_t read_of(pid_t tid, const char *name) {
  char path[80];
  sprintf(path, "/proc/self/task/%d/%s", tid, name);
  return read_path(path);
}

/* Field `n` of a stat line, from the last parenthesis on. */
static long long field(int n) {
  char *at = strrchr(text, ')') + 2;
  for (int i = 3; i < n; i++) at = strchr(at, ' ') + 1;
  return n == 3 ? *at : atoll(at);
}

static int fields(void) {
  int n = 2;
  for (char *at = strrchr(text, ')') + 1; *at && *at != '\n'; at++) n += *at == ' ';
  return n;
}

CASE(stat_of_a_thread) {
  pthread_t thread = begin();
  need(read_of(tid_of_other, "stat") > 0);
  must(atoi(text) == tid_of_other);
  say("fields %d, name [%.*s]", fields(), (int)(strrchr(text, ')') - strchr(text, '(') - 1), strchr(text, '(') + 1);
  say("state %c", (char)field(3));
  must(field(4) == getppid() && field(5) == getpgrp() && field(6) == getsid(0));
  say("priority %lld nice %lld threads %lld zero %lld", field(18), field(19), field(20), field(21));
  must(field(22) > 0 && field(23) > 0 && field(24) > 0);
  say("exit signal %lld, rt %lld, policy %lld, exit code %lld", field(38), field(40), field(41), field(52));
  must(field(39) >= 0 && field(39) < sysconf(_SC_NPROCESSORS_CONF) + 4096);
  must(text[strlen(text) - 1] == '\n' && strchr(text, '\n') == text + strlen(text) - 1);
  end(thread);
}

CASE(stat_of_the_process) {
  pthread_t thread = begin();
  need(read_path("/proc/self/stat") > 0);
  must(atoi(text) == getpid());
  say("fields %d, state %c, threads %lld, exit signal %lld", fields(), (char)field(3), field(20), field(38));
  end(thread);
  /* Who joins hears of the end before the thread is out of the count. */
  wait_until(read_path("/proc/self/stat") > 0 && field(20) == 1);
}

CASE(cpu_time) {
  int64_t until = now_ns(CLOCK_THREAD_CPUTIME_ID) + 60000000;
  while (now_ns(CLOCK_THREAD_CPUTIME_ID) < until) {}
  need(read_of(gettid(), "stat") > 0);
  long long own = field(14) + field(15);
  must(own >= 4);
  need(read_path("/proc/self/stat") > 0);
  /* Each field is rounded down, and the process's time need not be divided as the thread's is. */
  must(field(14) + field(15) >= own - 1);
  need(read_of(gettid(), "schedstat") > 0);
  must(atoll(text) >= 60000000);
  int spaces = 0;
  for (char *at = text; *at; at++) spaces += *at == ' ';
  say("schedstat has %d numbers", spaces + 1);
}

CASE(attributes_of_scheduling) {
  need(setpriority(0, 0, 5) == 0);
  need(read_of(gettid(), "stat") > 0);
  say("priority %lld nice %lld", field(18), field(19));
  struct sched_param param = {0};
  need(sched_setscheduler(0, SCHED_BATCH, &param) == 0);
  need(read_of(gettid(), "stat") > 0);
  say("policy %lld", field(41));
  need(sched_setscheduler(0, SCHED_OTHER, &param) == 0);
}

static void lines(const char *const *keys) {
  for (; *keys; keys++) {
    char *at = strstr(text, *keys);
    say("%.*s", at ? (int)strcspn(at, "\n") : 7, at ? at : "missing");
  }
}

CASE(status_of_a_thread) {
  pthread_t thread = begin();
  need(read_of(tid_of_other, "status") > 0);
  int pid = 0, tgid = 0, nspid = 0;
  sscanf(strstr(text, "\nPid:"), "\nPid:\t%d", &pid);
  sscanf(strstr(text, "\nTgid:"), "\nTgid:\t%d", &tgid);
  sscanf(strstr(text, "\nNSpid:"), "\nNSpid:\t%d", &nspid);
  must(pid == tid_of_other && tgid == getpid() && nspid == pid);
  lines((const char *const[]){"Name:", "Umask:", "State:", "TracerPid:", "Threads:", "SigPnd:", "SigBlk:", "SigIgn:",
                              "CapEff:", "NoNewPrivs:", NULL});
  int keys = 0;
  for (char *at = text; *at; at++) keys += *at == '\n';
  say("%d lines", keys);
  end(thread);
}

static void nothing(int signal) { (void)signal; }

CASE(signals_in_status) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1), sigaddset(&set, SIGTERM), sigaddset(&set, SIGRTMIN + 3);
  need(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
  signal(SIGUSR2, nothing), signal(SIGHUP, SIG_IGN);
  raise(SIGUSR1);
  kill(getpid(), SIGRTMIN + 3);
  kill(getpid(), SIGTERM);
  need(read_of(gettid(), "status") > 0);
  lines((const char *const[]){"SigPnd:", "SigBlk:", "SigIgn:", NULL});
  must(strtoull(strstr(text, "ShdPnd:") + 7, NULL, 16) & 1ull << (SIGRTMIN + 2));
  must(strtoull(strstr(text, "SigCgt:") + 7, NULL, 16) & 1ull << (SIGUSR2 - 1));
  need(read_of(gettid(), "stat") > 0);
  say("signal %lld blocked %lld ignored %lld", field(31), field(32), field(33));
  need(read_path("/proc/self/stat") > 0);
  say("signal of the process %lld", field(31));
  signal(SIGUSR2, SIG_DFL), signal(SIGHUP, SIG_DFL);
  siginfo_t info;
  for (int i = 0; i < 3; i++) need(sigwaitinfo(&set, &info) > 0);
}

CASE(affinity_in_status) {
  cpu_set_t one, all;
  need(sched_getaffinity(0, sizeof all, &all) == 0);
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  need(sched_setaffinity(0, sizeof one, &one) == 0);
  need(read_of(gettid(), "status") > 0);
  lines((const char *const[]){"Cpus_allowed_list:", NULL});
  need(sched_setaffinity(0, sizeof all, &all) == 0);
}

CASE(comm) {
  pthread_t thread = begin();
  need(read_of(tid_of_other, "comm") > 0);
  say("%s", strtok(text, "\n"));
  need(prctl(PR_SET_NAME, "new\nline\\") == 0);
  need(read_of(gettid(), "comm") > 0);
  say("%zu bytes, then %d", strlen(text), text[3]);
  need(read_of(gettid(), "status") > 0);
  lines((const char *const[]){"Name:", NULL});
  need(prctl(PR_SET_NAME, "contents") == 0);
  end(thread);
}

CASE(what_it_waits_for) {
  pthread_t thread = begin();
  need(read_of(tid_of_other, "stat") > 0);
  say("wchan field %s", field(35) ? "set" : "0");
  need(read_of(gettid(), "wchan") >= 0);
  say("own wchan: %s", text);
  end(thread);
}

CASE(sched_file) {
  need(prctl(PR_SET_NAME, "sch ed)") == 0);
  char head[64];
  sprintf(head, "sch ed) (%d, #threads: 1)\n---", gettid());
  // A thread that has been joined may still be counted for a moment.
  do need(read_of(gettid(), "sched") > 0);
  while (strstr(text, "#threads: 2)"));
  must(strncmp(text, head, strlen(head)) == 0);
  for (const char *const *key = (const char *const[]){"se.sum_exec_runtime ", "nr_switches ", "policy ", "prio ", NULL};
       *key; key++) {
    char *at = strstr(text, *key);
    say("%s: colon at %d, %d wide", *key, at ? (int)strcspn(at, ":") : -1, at ? (int)strcspn(at, "\n") : -1);
  }
  lines((const char *const[]){"policy ", "prio ", NULL});
  need(prctl(PR_SET_NAME, "contents") == 0);
}

CASE(limits) {
  need(read_of(gettid(), "limits") > 0);
  lines((const char *const[]){"Limit ", "Max cpu time", "Max stack size", "Max realtime timeout", "Max nice", NULL});
}

CASE(timers) {
  need(read_path("/proc/self/timers") == 0);
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 7};
  timer_t timer;
  need(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  need(read_path("/proc/self/timers") > 0);
  lines((const char *const[]){"ID:", "signal:", "ClockID:", NULL});
  char notify[40];
  sprintf(notify, "notify: signal/pid.%d\n", getpid());
  must(strstr(text, notify));
  need(timer_delete(timer) == 0);
  need(read_path("/proc/self/timers") == 0);
}

CASE(shared_files) {
  pthread_t thread = begin();
  need(read_of(tid_of_other, "statm") > 0);
  int numbers = 1;
  for (char *at = text; *at; at++) numbers += *at == ' ';
  say("statm %d numbers", numbers);
  static char whole[16384];
  ssize_t len = read_path("/proc/self/cmdline");
  memcpy(whole, text, len);
  must(read_of(tid_of_other, "cmdline") == len && memcmp(whole, text, len) == 0);
  need(read_of(tid_of_other, "cgroup") > 0);
  need(read_of(tid_of_other, "io") > 0);
  need(read_of(tid_of_other, "maps") > 0);
  end(thread);
}

CASE(attributes) {
  pthread_t thread = begin();
  struct stat proc, st;
  need(stat("/proc/uptime", &proc) == 0);
  for (const char *const *name = (const char *const[]){"", "stat", "status", "comm", "sched", "schedstat", "wchan", "stack",
                                                       "limits", "environ", "maps", "exe", "fd", "children", NULL};
       *name; name++) {
    char path[80];
    sprintf(path, "/proc/self/task/%d/%s", tid_of_other, *name);
    need(lstat(path, &st) == 0);
    say("[%s] mode %o, links %ld, size %ld, block %ld, own %d", *name, st.st_mode, (long)st.st_nlink,
        S_ISDIR(st.st_mode) ? 0 : (long)st.st_size, (long)st.st_blksize, st.st_uid == geteuid() && st.st_gid == getegid());
    must(st.st_dev == proc.st_dev && st.st_ino != 0);
    struct statx sx;
    need(statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &sx) == 0);
    must(sx.stx_mode == st.st_mode && sx.stx_nlink == st.st_nlink && sx.stx_ino == st.st_ino);
  }
  need(stat("/proc/self/task", &st) == 0);
  say("task: mode %o, links %ld", st.st_mode, (long)st.st_nlink);
  need(stat("/proc/self", &st) == 0);
  say("self: mode %o, links %ld", st.st_mode, (long)st.st_nlink);
  need(lstat("/proc/self", &st) == 0);
  say("link: mode %o, links %ld, size %ld", st.st_mode, (long)st.st_nlink, (long)st.st_size);
  end(thread);
}

CASE(not_dumpable) {
  need(prctl(PR_SET_DUMPABLE, 0) == 0);
  struct stat st;
  need(stat("/proc/thread-self/stat", &st) == 0);
  say("file of uid %d", st.st_uid);
  need(stat("/proc/thread-self", &st) == 0);
  say("folder own %d", st.st_uid == geteuid());
  need(prctl(PR_SET_DUMPABLE, 1) == 0);
  need(stat("/proc/thread-self/stat", &st) == 0);
  say("file own %d", st.st_uid == geteuid());
}

/* Every variable in `environ` is one that the program has been given. */
CASE(environment) {
  static char text[1 << 20];
  int fd = open("/proc/self/environ", O_RDONLY);
  ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text - 1), known = 0, foreign = 0;
  need(len > 0);
  close(fd);
  for (char *at = text; at < text + len; at += strlen(at) + 1) {
    bool found = *at == 0;
    for (char **given = environ; *given && !found; given++) found = strcmp(at, *given) == 0;
    known += found && *at;
    foreign += !found;
  }
  for (char **given = environ; *given; given++) known--;
  say("missing %zd, foreign %zd", -known, foreign);
}
