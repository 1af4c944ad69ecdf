//@ status: any
//@ forms: musl
/* The main thread has exited before others: its id still names what is left of it (`delay_group_leader`). */
#include "../check.h"
#include <dirent.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

static void read_file(const char *path, char *text, size_t size) {
  int file = open(path, O_RDONLY);
  need(file >= 0);
  ssize_t n = read(file, text, size - 1);
  need(n >= 0);
  text[n] = 0;
  close(file);
}

static void say_lines(const char *path, const char *const *names) {
  char text[8192];
  read_file(path, text, sizeof text);
  for (; *names; names++) {
    char *line = strstr(text, *names);
    need(line != NULL);
    say("%.*s", (int)strcspn(line, "\n"), line);
  }
}

/* Fields of `stat` after the name: state (3), threads (20), priority, nice (18, 19), and those of signals and policy. */
static void say_stat(const char *path) {
  static const int fields[] = {3, 18, 19, 20, 31, 32, 33, 34, 38, 40, 41};
  char text[4096];
  read_file(path, text, sizeof text);
  char *at = strrchr(text, ')');
  need(at != NULL);
  say("name %.*s", (int)(strchr(text, ')') - strchr(text, '(')) + 1, strchr(text, '('));
  int number = 2;
  for (char *field = strtok(at + 1, " \n"); field; field = strtok(NULL, " \n")) {
    number++;
    for (int i = 0; i < COUNT(fields); i++)
      if (fields[i] == number) say("field %d: %s", number, field);
  }
}

static void wait_for_zombie(void) {
  char text[4096];
  do {
    sched_yield();
    read_file("/proc/self/stat", text, sizeof text);
  } while (strrchr(text, ')')[2] != 'Z');
}

/* A thread counts for a moment after it was joined: until the host has released it (`release_task`). */
static void wait_for_threads(int count) {
  char text[8192], line[32];
  snprintf(line, sizeof line, "\nThreads:\t%d\n", count);
  do {
    sched_yield();
    read_file("/proc/self/status", text, sizeof text);
  } while (!strstr(text, line));
}

static void say_scheduling(pid_t of) {
  cpu_set_t cpus;
  struct sched_param param = {0};
  struct timespec time;
  say("policy %d, param %d %d", sched_getscheduler(of), sched_getparam(of, &param), param.sched_priority);
  say("mask %d, %d", sched_getaffinity(of, sizeof cpus, &cpus), CPU_COUNT(&cpus) > 0);
  say("set: %d %d", sched_setaffinity(of, sizeof cpus, &cpus), sched_setscheduler(of, SCHED_OTHER, &(struct sched_param){0}));
  say("interval %d", sched_rr_get_interval(of, &time));
  say("bad: %d", sched_setscheduler(of, SCHED_OTHER, &(struct sched_param){.sched_priority = 3}));
  clockid_t clock = (clockid_t)(~(unsigned)of << 3 | 6);
  say("clock %d", clock_gettime(clock, &time));
  must(time.tv_sec > 0 || time.tv_nsec >= 20 * 1000 * 1000);
  struct timespec again;
  need(clock_gettime(clock, &again) == 0);
  say("it stands: %d", again.tv_sec == time.tv_sec && again.tv_nsec == time.tv_nsec);
}

static void *nothing(void *unused) { return unused; }
static void handle(int number) { (void)number; }

static void *look(void *unused) {
  wait_for_zombie();
  static const char *const lines[] = {"Name:", "State:", "Threads:", "SigPnd:", "SigIgn:", "SigCgt:", NULL};
  pid_t pid = getpid();
  say_scheduling(pid);
  say_lines("/proc/self/status", lines);
  say_stat("/proc/self/stat");
  char path[64], text[4096];
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", pid);
  say_stat(path);
  snprintf(path, sizeof path, "/proc/self/task/%d/comm", pid);
  read_file(path, text, sizeof text);
  say("comm %s", text);
  read_file("/proc/self/timerslack_ns", text, sizeof text);
  say("slack %s", text);
  int file = open("/proc/self/comm", O_WRONLY);
  say("renamed %zd", write(file, "gone", 4));
  close(file);
  read_file("/proc/self/comm", text, sizeof text);
  say("comm %s", text);
  struct stat of;
  need(stat("/proc/self/task", &of) == 0);
  say("links %d", (int)of.st_nlink);
  int entries = 0;
  DIR *tasks = opendir("/proc/self/task");
  while (readdir(tasks)) entries++;
  closedir(tasks);
  say("entries %d", entries);
  read_file("/proc/self/schedstat", text, sizeof text);
  must(strncmp(text, "0 ", 2) != 0);
  /* A new thread does not get its place. */
  finish(start(nothing, NULL));
  wait_for_threads(2);
  say_stat("/proc/self/stat");
  say("kill %d, tgkill %d", kill(pid, 0), (int)syscall(SYS_tgkill, pid, pid, 0));
  return unused;
}

CASE(seen_by_its_id) {
  signal(SIGUSR1, handle);
  signal(SIGUSR2, SIG_IGN);
  need(prctl(PR_SET_NAME, "the first") == 0);
  need(setpriority(PRIO_PROCESS, 0, 3) == 0);
  struct timespec used;
  do need(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) == 0);
  while (used.tv_sec == 0 && used.tv_nsec < 20 * 1000 * 1000);
  start(look, NULL);
  pthread_exit(NULL);
}
