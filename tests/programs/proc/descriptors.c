/* Numbers of files in /proc: the lowest that is free, whoever freed it, and nothing when they are closed. */
#include "../check.h"
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>

static char text[4096];

static int proc_file(void) { return open("/proc/thread-self/stat", O_RDONLY); }
static int other_file(void) { return open("/dev/null", O_RDONLY); }
static ssize_t read_some(int fd) { return read(fd, text, sizeof text) > 40; }

CASE(the_lowest) {
  int a = proc_file(), b = proc_file(), c = proc_file();
  say("%d %d %d", a, b, c);
  close(b);
  say("again %d", b = proc_file());
  close(a), close(b);
  int x = other_file(), y = other_file(), z = other_file();
  say("others take %d %d, then %d", x, y, z);
  close(c), close(x), close(z);
  a = proc_file(), b = proc_file(), c = proc_file();
  say("%d %d %d", a, b, c);
  must(read_some(a) && read_some(b) && read_some(c));
  close(a), close(b), close(c), close(y);
}

/* A number below becomes free while one of ours is open, or just closed. */
CASE(below) {
  int low = other_file(), a = proc_file();
  close(low), close(a);
  say("%d", a = proc_file());
  close(a);
  low = other_file(), a = proc_file();
  close(a), close(low);
  say("%d", a = proc_file());
  int b = proc_file();
  say("%d", b);
  close(a), close(b);
  low = other_file(), a = proc_file();
  dup2(low, 40), close(a), close(low);
  a = proc_file();
  close(40);
  say("%d", a);
  close(a);
}

CASE(closed) {
  int fd = proc_file();
  must(read_some(fd) && close(fd) == 0);
  struct stat st;
  struct pollfd asked = {fd, POLLIN, 0};
  char path[40];
  say("close %s, read %s, pread %s", result(close(fd)), result(read(fd, text, 9)), result(pread(fd, text, 9, 0)));
  must((fd = proc_file()) >= 0 && close(fd) == 0);
  say("fstat %s, lseek %s, write %s", result(fstat(fd, &st)), result(lseek(fd, 0, SEEK_SET)), result(write(fd, "", 1)));
  must((fd = proc_file()) >= 0 && close(fd) == 0);
  say("openat %s, fstatat %s", result(openat(fd, "x", O_RDONLY)), result(fstatat(fd, "x", &st, 0)));
  must((fd = proc_file()) >= 0 && close(fd) == 0);
  say("dup %s, fcntl %s", result(dup(fd)), result(fcntl(fd, F_GETFD)));
  must((fd = proc_file()) >= 0 && close(fd) == 0);
  int answer = poll(&asked, 1, 0);
  say("poll %d %d", answer, asked.revents);
  must((fd = proc_file()) >= 0 && close(fd) == 0);
  sprintf(path, "/proc/self/fd/%d", fd);
  say("by name %s", result(access(path, F_OK)));
  must((fd = proc_file()) >= 0 && close(fd) == 0);
  sprintf(path, "/dev/fd/%d", fd);
  say("by another %s", result(open(path, O_RDONLY)));
}

CASE(listed) {
  DIR *folder = opendir("/proc/self/fd");
  need(folder);
  int fd = proc_file(), seen = 0;
  struct dirent *entry;
  close(fd);
  while ((entry = readdir(folder))) seen += entry->d_name[0] != '.' && atoi(entry->d_name) == fd;
  say("%d", seen);
  closedir(folder);
}

static int kept;

static void child(void) {
  say("open %d, closed %s", fcntl(kept, F_GETFD) >= 0, result(fcntl(kept + 1, F_GETFD)));
  say("next %d", proc_file());
}

CASE(over_fork) {
  kept = proc_file();
  close(proc_file());
  in_child("child", child);
  say("then %d", proc_file());
}

CASE(ranges) {
  int fd[6];
  for (int i = 0; i < 6; i++) fd[i] = i % 2 ? proc_file() : other_file();
  close(fd[1]);
  say("marked %s", result(syscall(SYS_close_range, fd[3], fd[5], 4)));
  must(read_some(fd[3]) && fcntl(fd[3], F_GETFD) == FD_CLOEXEC && fcntl(fd[5], F_GETFD) == FD_CLOEXEC);
  close(fd[3]);
  say("wrong %s", result(syscall(SYS_close_range, fd[0], fd[5], 64)));
  must(read_some(fd[5]));
  say("closed %s", result(syscall(SYS_close_range, fd[0], fd[4], 0)));
  say("%d %d %d", proc_file(), proc_file(), other_file());
  must(fcntl(fd[5], F_GETFD) == FD_CLOEXEC);
  syscall(SYS_close_range, fd[0], fd[5], 0);
  say("%d", proc_file());
}

CASE(over) {
  int a = proc_file(), b = proc_file(), null = other_file();
  close(a);
  say("onto a closed one %s", result(dup2(null, a)));
  say("it reads %zd, next %d", read(a, text, 9), proc_file());
  say("onto an open one %s", result(dup2(null, b)));
  say("it reads %zd", read(b, text, 9));
  close(a), close(b);
  say("%d %d", proc_file(), proc_file());
}

static unsigned random_number(void) {
  static unsigned long state = 88172645463325252;
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state >> 20;
}

/* The same numbers as natively, whatever is opened and closed. */
CASE(at_random) {
  enum { MAX = 30 };
  int open_files[MAX], n = 0;
  unsigned long sum = 0;
  for (int step = 0; step < 4000; step++) {
    unsigned what = random_number() % 12;
    int at = n ? (int)(random_number() % n) : 0, fd = -2;
    if (what < 5 && n < MAX) fd = open_files[n++] = proc_file();
    else if (what < 6 && n < MAX) fd = open_files[n++] = other_file();
    else if (what < 7 && n && n < MAX) fd = open_files[n++] = dup(open_files[at]);
    else if (n) fd = -close(open_files[at]), open_files[at] = open_files[--n];
    must(fd != -1);
    sum = sum * 31 + fd;
  }
  say("%lu", sum);
}

static atomic_int leave;
static atomic_int highest, rounds;

static void *opener(void *arg) {
  for (int round = 0; !atomic_load(&leave); round++) {
    int fd = arg && round % 3 == 0 ? other_file() : proc_file();
    need(fd >= 0);
    if (fd > atomic_load(&highest)) atomic_store(&highest, fd);
    if (!arg) must(read_some(fd));
    struct stat st;
    must(fstat(fd, &st) == 0);
    must(close(fd) == 0);
    atomic_fetch_add(&rounds, 1);
  }
  return NULL;
}

CASE(by_many_at_once) {
  int first = proc_file();
  close(first);
  pthread_t threads[6];
  for (long i = 0; i < 6; i++) threads[i] = start(opener, (void *)(i % 2));
  wait_until(atomic_load(&rounds) > 3000);
  atomic_store(&leave, 1);
  for (int i = 0; i < 6; i++) finish(threads[i]);
  /* One more for each while it is being opened or closed. */
  must(atomic_load(&highest) < first + 12);
  say("%d %d", proc_file() == first, other_file() == first + 1);
}

/* A program that may not write files has a file of /proc open, and makes a child. */
static void no_files(void) {
  char text[4096];
  struct rlimit before, none = {0};
  need(getrlimit(RLIMIT_FSIZE, &before) == 0);
  none.rlim_max = before.rlim_max;
  need(setrlimit(RLIMIT_FSIZE, &none) == 0);
  int fd = open("/proc/self/status", O_RDONLY);
  need(fd >= 0 && read(fd, text, 10) == 10);
  pid_t child = fork();
  if (child == 0) _exit(lseek(fd, 0, SEEK_SET) == 0 && read(fd, text, sizeof text) > 100 ? 3 : 4);
  int status;
  need(waitpid(child, &status, 0) == child);
  bool again = lseek(fd, 0, SEEK_SET) == 0 && read(fd, text, sizeof text) > 100;
  need(setrlimit(RLIMIT_FSIZE, &before) == 0);
  say("child of it: %s, read again %d", ended(status), again);
}
CASE(without_files) { in_child("child", no_files); }

/* A path alone is neither read nor written, and what is read only has its length. */
CASE(paths_alone) {
  const char *const names[] = {"/proc/self/status", "/proc/self/task", "/proc/self/stat", "/proc/thread-self/comm", "/proc/self"};
  for (int i = 0; i < COUNT(names); i++) {
    int fd = open(names[i], O_PATH);
    say("%s: read %s, write %s", names[i], result(read(fd, text, 8)), result(write(fd, "x", 1)));
    say("  seek %s, truncate %s", result(lseek(fd, 0, SEEK_SET)), result(ftruncate(fd, 0)));
    say("  list %s, flags %o", result(syscall(SYS_getdents64, fd, text, sizeof text)), fcntl(fd, F_GETFL) & ~0100000);
    struct stat state;
    need(fstat(fd, &state) == 0);
    say("  mode %o", state.st_mode);
    char again[64];
    snprintf(again, sizeof again, "/proc/self/fd/%d", fd);
    int second = open(again, O_RDONLY);
    say("  opened again: %s", second < 0 ? "no" : S_ISDIR(state.st_mode) ? "folder" : read(second, text, 4) > 0 ? "read" : "empty");
    close(second), close(fd);
    fd = open(names[i], O_RDONLY);
    say("  read only: truncate %s, to less than nothing %s", result(ftruncate(fd, 0)), result(ftruncate(fd, -1)));
    close(fd);
  }
  int fd = open("/proc/self/comm", O_RDWR | O_TRUNC);
  say("comm: truncate %s, then %s", result(ftruncate(fd, 0)), read(fd, text, 64) > 1 ? "it is there" : "it is gone");
  close(fd);
}
