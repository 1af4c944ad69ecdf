//@ root
/* Rights that a program gives up: every thread has lost them afterwards, and so has every thread that the host
 * knows of this process, whatever it was doing. Each case runs in a child, which gives up its own. */
#include "../check.h"
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>

enum { THREADS = 50 };
static int pipe_ends[2];
static atomic_bool stop;
static atomic_int ready;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

/* A fifth each reads from a pipe, polls, waits for a condition, sleeps, computes. */
static void *busy(void *argument) {
  long kind = (long)argument % 5;
  ready++;
  char byte;
  switch (kind) {
    case 0:
      while (read(pipe_ends[0], &byte, 1) == -1 && errno == EINTR) {}
      break;
    case 1:
      while (!stop) poll(&(struct pollfd){pipe_ends[0], 0, 0}, 1, 50);
      break;
    case 2:
      pthread_mutex_lock(&lock);
      while (!stop) pthread_cond_wait(&cond, &lock);
      pthread_mutex_unlock(&lock);
      break;
    case 3:
      while (!stop) sleep_ms(20);
      break;
    default:
      while (!stop) sched_yield();
  }
  uid_t ruid, euid, suid;
  gid_t rgid, egid, sgid;
  need(getresuid(&ruid, &euid, &suid) == 0 && getresgid(&rgid, &egid, &sgid) == 0);
  must(ruid == geteuid() && euid == getuid());
  return (void *)(long)(euid * 100000L + egid);
}

/* How many tasks of this process have a line in their status that begins so, and go on otherwise. */
static int tasks_without(const char *name, const char *wanted) {
  DIR *folder = opendir("/proc/./self/task");
  need(folder);
  int others = 0, seen = 0;
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (entry->d_name[0] == '.') continue;
    char path[300], line[4096];
    snprintf(path, sizeof path, "/proc/./self/task/%s/status", entry->d_name);
    FILE *file = fopen(path, "r");
    if (!file) continue;
    while (fgets(line, sizeof line, file)) {
      if (strncmp(line, name, strlen(name)) != 0) continue;
      line[strcspn(line, "\n")] = 0;
      seen++;
      if (strncmp(line + strlen(name), wanted, strlen(wanted)) != 0) others++;
    }
    fclose(file);
  }
  closedir(folder);
  must(seen > 0);
  return others;
}

static void begin(pthread_t *threads) {
  need(pipe(pipe_ends) == 0);
  stop = false;
  ready = 0;
  for (long i = 0; i < THREADS; i++) threads[i] = start(busy, (void *)i);
  wait_until(ready == THREADS);
  settle();
}

/* Ends the threads; how many of them had other effective ids than these. */
static int end(pthread_t *threads, long uid, long gid) {
  int others = 0;
  pthread_mutex_lock(&lock);
  stop = true;
  pthread_cond_broadcast(&cond);
  pthread_mutex_unlock(&lock);
  close(pipe_ends[1]);
  for (int i = 0; i < THREADS; i++) others += finish(threads[i]) != (void *)(uid * 100000L + gid);
  return others;
}

static void drop_everything(void) {
  pthread_t threads[THREADS];
  begin(threads);
  gid_t groups[] = {1234, 4321};
  say("setgroups %s", result(setgroups(2, groups)));
  say("tasks with other groups: %d", tasks_without("Groups:\t", "1234 4321"));
  say("setresgid %s", result(setresgid(1500, 1500, 1500)));
  say("tasks with other gids: %d", tasks_without("Gid:\t", "1500\t1500\t1500\t1500"));
  say("setresuid %s", result(setresuid(1000, 1000, 1000)));
  say("tasks with other uids: %d", tasks_without("Uid:\t", "1000\t1000\t1000\t1000"));
  say("tasks with capabilities: %d", tasks_without("CapEff:\t", "0000000000000000"));
  say("tasks with capabilities to take: %d", tasks_without("CapPrm:\t", "0000000000000000"));
  say("setuid(0) %s", result(setuid(0)));
  say("setresgid(0) %s", result(setresgid(0, 0, 0)));
  say("open shadow %s", errname(open("/etc/shadow", O_RDONLY) == -1 ? errno : 0));
  say("threads with others: %d", end(threads, 1000, 1500));
  pthread_t late = start(busy, (void *)4);
  say("a late thread: %ld", (long)finish(late));
}

CASE(drop) { in_child("child", drop_everything); }

static void *end_at_once(void *unused) { return unused; }

/* What `status` says right after the ids have changed. */
static void read_at_once(void) {
  pthread_t threads[THREADS];
  begin(threads);
  int odd = 0;
  char path[64], line[256], wanted[64];
  for (int i = 0; i < 200; i++) {
    finish(start(end_at_once, NULL));
    need(setresuid(0, i % 2, 0) == 0);
    snprintf(wanted, sizeof wanted, "Uid:\t0\t%d\t0\t%d\n", i % 2, i % 2);
    snprintf(path, sizeof path, i % 4 < 2 ? "/proc/self/status" : "/proc/self/task/%d/status", getpid());
    FILE *file = fopen(path, "r");
    need(file);
    while (fgets(line, sizeof line, file) && strncmp(line, "Uid:", 4) != 0) {}
    odd += strcmp(line, wanted) != 0;
    fclose(file);
  }
  need(setresuid(0, 0, 0) == 0);
  say("%d odd", odd);
  say("threads with others: %d", end(threads, 0, 0));
}

CASE(status_at_once) { in_child("child", read_at_once); }

/* Effective ids can come back. */
static void forth_and_back(void) {
  pthread_t threads[THREADS];
  begin(threads);
  for (int i = 0; i < 5; i++) {
    need(seteuid(1000 + i) == 0);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "0\t%d\t0\t%d", 1000 + i, 1000 + i);
    must(tasks_without("Uid:\t", wanted) == 0);
    say("seteuid to another %s", result(seteuid(2000)));
    need(seteuid(0) == 0);
    must(tasks_without("Uid:\t", "0\t0\t0\t0") == 0);
  }
  need(setegid(77) == 0);
  say("threads with others: %d", end(threads, 0, 77));
}

CASE(effective) { in_child("child", forth_and_back); }

static void refused(void) {
  pthread_t threads[THREADS];
  begin(threads);
  need(setresuid(1000, 1000, 1000) == 0);
  say("setuid(0) %s", result(setuid(0)));
  say("setgid(0) while it is one's own %s", result(setgid(0)));
  say("setgid(5) %s", result(setgid(5)));
  say("setgroups %s", result(setgroups(0, NULL)));
  say("setreuid(-1, 0) %s", result(setreuid(-1, 0)));
  say("raw setgroups of too many %s", result(syscall(SYS_setgroups, 70000, NULL)));
  say("threads with others: %d", end(threads, 1000, 0));
}

CASE(refusal) { in_child("child", refused); }

static void bad_arguments(void) {
  say("setgroups of too many %s", result(syscall(SYS_setgroups, 70000, NULL)));
  say("setgroups of a bad address %s", result(syscall(SYS_setgroups, 3, (void *)8)));
  say("setgroups of less than none %s", result(syscall(SYS_setgroups, -1, NULL)));
  say("setuid(-1) %s", result(syscall(SYS_setuid, -1)));
  say("capset of nothing %s", result(syscall(SYS_capset, NULL, NULL)));
  struct __user_cap_header_struct header = {0x12345678, 0};
  struct __user_cap_data_struct data[2] = {0};
  const char *answer = result(syscall(SYS_capset, &header, data));
  say("capset of no version %s, %x", answer, header.version);
  header.version = _LINUX_CAPABILITY_VERSION_3;
  header.pid = 1;
  say("capset of another %s", result(syscall(SYS_capset, &header, data)));
  say("keep capabilities badly %s", result(prctl(PR_SET_KEEPCAPS, 2)));
  say("no new privileges badly %s", result(prctl(PR_SET_NO_NEW_PRIVS, 1, 1, 0, 0)));
}

CASE(errors) { in_child("child", bad_arguments); }

/* Raw calls change one thread: others keep their rights, whatever CPU either runs on. */
static atomic_int turn;

static void *file_server(void *argument) {
  long user = (long)argument;
  for (int i = 0; i < 200; i++) {
    long fsuid = syscall(SYS_setfsuid, user);
    must(fsuid == 0);
    sched_yield();
    if (i % 20 == 0) sleep_ms(1);
    must(syscall(SYS_setfsuid, -1) == user);
    must(syscall(SYS_setfsuid, 0) == user);
    sched_yield();
    must(syscall(SYS_setfsuid, -1) == 0);
  }
  return NULL;
}

static void *bystander(void *argument) {
  while (turn == 0) {
    must(syscall(SYS_setfsuid, -1) == 0);
    must(geteuid() == 0);
    sched_yield();
  }
  return argument;
}

static void file_system_users(void) {
  pthread_t servers[8], others[8];
  turn = 0;
  for (long i = 0; i < 8; i++) servers[i] = start(file_server, (void *)(1000 + i));
  for (long i = 0; i < 8; i++) others[i] = start(bystander, NULL);
  for (int i = 0; i < 8; i++) finish(servers[i]);
  turn = 1;
  for (int i = 0; i < 8; i++) finish(others[i]);
}

CASE(one_thread_each) { in_child("child", file_system_users); }

static void *gives_up(void *argument) {
  need(syscall(SYS_setresuid, 1000, 1000, 1000) == 0);
  int pair[2];
  need(pipe(pair) == 0);
  turn = 1;
  for (int i = 0; i < 100; i++) {
    must(geteuid() == 1000);
    sleep_ms(1);
    must(open("/etc/shadow", O_RDONLY) == -1 && errno == EACCES);
    need(write(pair[1], "x", 1) == 1);
    char byte;
    need(read(pair[0], &byte, 1) == 1);
  }
  say("back to root %s", result(syscall(SYS_setresuid, 0, 0, 0)));
  return argument;
}

static void *child_of_one(void *argument) {
  for (int i = 0; i < 50; i++) {
    must(geteuid() == 1000);
    sched_yield();
  }
  return argument;
}

static void *gives_up_and_forks(void *argument) {
  need(syscall(SYS_setresuid, 1000, 1000, 1000) == 0);
  pthread_t thread = start(child_of_one, NULL);
  finish(thread);
  pid_t child = fork();
  need(child != -1);
  if (child == 0) _exit(geteuid() == 1000 && syscall(SYS_setresuid, 0, 0, 0) == -1 ? 7 : 8);
  int status;
  need(waitpid(child, &status, 0) == child);
  say("child of the thread: %s", ended(status));
  return argument;
}

static void one_thread_drops(void) {
  turn = 0;
  pthread_t thread = start(gives_up, NULL);
  wait_until(turn == 1);
  for (int i = 0; i < 200; i++) {
    must(geteuid() == 0);
    int file = open("/etc/shadow", O_RDONLY);
    must(file != -1);
    close(file);
    sched_yield();
    if (i % 10 == 0) sleep_ms(1);
  }
  finish(thread);
  finish(start(gives_up_and_forks, NULL));
  must(geteuid() == 0);
  /* All are of one mind again. */
  need(setresuid(1001, 1001, 1001) == 0);
  must(geteuid() == 1001);
  wait_until(tasks_without("Uid:\t", "1001\t1001\t1001\t1001") == 0);
}

CASE(one_thread_for_good) { in_child("child", one_thread_drops); }

static void no_new_privileges(void) {
  pthread_t threads[THREADS];
  need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  begin(threads);
  say("no new privileges: %d", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
  say("tasks without: %d", tasks_without("NoNewPrivs:\t", "1"));
  say("threads with others: %d", end(threads, 0, 0));
}

CASE(privileges) { in_child("child", no_new_privileges); }

static void capabilities(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, getpid()};
  struct __user_cap_data_struct data[2];
  need(syscall(SYS_capget, &header, data) == 0);
  data[0].effective = data[0].permitted = 1 << CAP_NET_BIND_SERVICE;
  data[1].effective = data[1].permitted = 0;
  need(prctl(PR_SET_KEEPCAPS, 1) == 0);
  say("keeps: %d", prctl(PR_GET_KEEPCAPS));
  need(prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN) == 0);
  say("capset %s", result(syscall(SYS_capset, &header, data)));
  pthread_t threads[THREADS];
  begin(threads);
  say("tasks with more: %d", tasks_without("CapEff:\t", "0000000000000400"));
  say("bounds: %d", prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN));
  say("setuid %s", result(setresuid(1000, 1000, 1000)));
  say("dumpable: %d", prctl(PR_GET_DUMPABLE) == 1);
  need(prctl(PR_SET_DUMPABLE, 1) == 0);
  say("threads with others: %d", end(threads, 0, 0));
  say("dumpable: %d", prctl(PR_GET_DUMPABLE) == 1);
}

CASE(capability_sets) { in_child("child", capabilities); }
