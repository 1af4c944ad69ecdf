/* Threads that come and go under whoever looks at them; descriptors; listings; writing. */
#include "../check.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define MANY 200

static pid_t tids[MANY];
static atomic_int ready, leave;

static void *other(void *arg) {
  tids[(long)arg] = gettid();
  atomic_fetch_add(&ready, 1);
  while (!atomic_load(&leave)) sleep_ms(1);
  return NULL;
}

static void begin(pthread_t *threads, int n) {
  atomic_store(&ready, 0), atomic_store(&leave, 0);
  for (long i = 0; i < n; i++) threads[i] = start(other, (void *)i);
  wait_until(atomic_load(&ready) == n);
}

static const char *path_of(pid_t tid, const char *name) {
  static char path[80];
  sprintf(path, "/proc/self/task/%d%s%s", tid, *name ? "/" : "", name);
  return path;
}

/* Joined is a moment before gone. */
static void end(pthread_t *threads, int n) {
  atomic_store(&leave, 1);
  for (int i = 0; i < n; i++) finish(threads[i]);
  for (int i = 0; i < n; i++) wait_until(access(path_of(tids[i], ""), F_OK) == -1);
}

static char text[8192];
static char *volatile nowhere = (char *)8;

CASE(listing) {
  pthread_t threads[MANY];
  begin(threads, MANY);
  DIR *folder = opendir("/proc/self/task");
  need(folder);
  int seen[MANY] = {0}, own = 0, others = 0, first = 0;
  struct dirent *entry;
  for (int at = 0; (entry = readdir(folder)); at++) {
    pid_t tid = atoi(entry->d_name);
    bool known = false;
    for (int i = 0; i < MANY; i++) known |= tids[i] == tid && ++seen[i];
    if (at < 2) say("%s", entry->d_name);
    else if (tid == getpid()) own++, first = at == 2;
    else if (!known) others++;
    if (at >= 2) must(entry->d_type == DT_DIR && entry->d_ino != 0);
  }
  int once = 0;
  for (int i = 0; i < MANY; i++) once += seen[i] == 1;
  say("%d threads once, own %d and first %d, others %d", once, own, first, others);
  rewinddir(folder);
  int again = 0;
  while (readdir(folder)) again++;
  say("again %d", again);
  closedir(folder);
  struct stat st;
  need(stat("/proc/self/task", &st) == 0);
  say("links %ld", (long)st.st_nlink);
  end(threads, MANY);
}

CASE(small_buffers) {
  pthread_t threads[8];
  begin(threads, 8);
  int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY);
  need(fd >= 0);
  char buffer[4096];
  say("too small: %s", result(syscall(SYS_getdents64, fd, buffer, 8)));
  int entries = 0;
  long n;
  while ((n = syscall(SYS_getdents64, fd, buffer, 40)) > 0) {
    for (long at = 0; at < n; at += *(unsigned short *)(buffer + at + 16)) entries++;
  }
  say("end %s after %d", result(n), entries);
  say("at the end: %s", result(syscall(SYS_getdents64, fd, buffer, sizeof buffer)));
  need(lseek(fd, 0, SEEK_SET) == 0);
  must(syscall(SYS_getdents64, fd, buffer, sizeof buffer) > 0);
  need(lseek(fd, 0, SEEK_SET) == 0);
  say("nowhere: %s", result(syscall(SYS_getdents64, fd, nowhere, 4096)));
  close(fd);
  say("no folder: %s", result(syscall(SYS_getdents64, 1, buffer, sizeof buffer)));
  end(threads, 8);
}

CASE(the_dead) {
  pthread_t thread;
  begin(&thread, 1);
  pid_t tid = tids[0];
  int folder = open(path_of(tid, ""), O_RDONLY | O_DIRECTORY);
  int stat_fd = open(path_of(tid, "stat"), O_RDONLY), comm = open(path_of(tid, "comm"), O_RDWR);
  int status = open(path_of(tid, "status"), O_RDONLY);
  need(folder >= 0 && stat_fd >= 0 && comm >= 0 && status >= 0);
  must(pread(stat_fd, text, sizeof text, 0) > 0);
  end(&thread, 1);
  struct stat st;
  say("stat %s, open %s", result(stat(path_of(tid, "stat"), &st)), result(open(path_of(tid, "stat"), O_RDONLY)));
  say("access %s", result(access(path_of(tid, ""), F_OK)));
  say("kept: stat %s, status %s, comm %s", result(pread(stat_fd, text, 99, 0)), result(read(status, text, 99)),
      result(pread(comm, text, 99, 0)));
  say("write comm: %s", result(write(comm, "x", 1)));
  say("fstat of the folder: %s", result(fstat(folder, &st)));
  say("in the folder: %s", openat(folder, "stat", O_RDONLY) < 0 ? "not there" : "there");
  char buffer[1024];
  say("list the folder: %s", result(syscall(SYS_getdents64, folder, buffer, sizeof buffer)));
  close(folder), close(stat_fd), close(comm), close(status);
}

static void *short_lived(void *arg) {
  atomic_store((atomic_int *)arg, gettid());
  return NULL;
}

CASE(while_they_die) {
  long bad = 0, found = 0;
  for (int round = 0; round < 200; round++) {
    atomic_int tid = 0;
    pthread_t thread = start(short_lived, &tid);
    wait_until(atomic_load(&tid));
    for (int i = 0; i < 20; i++) {
      int fd = open(path_of(tid, "stat"), O_RDONLY);
      if (fd < 0) {
        bad += errno != ENOENT && errno != ESRCH;
        break;
      }
      ssize_t n = read(fd, text, sizeof text - 1);
      if (n > 0) {
        text[n] = 0;
        found++;
        bad += atoi(text) != tid;
      } else bad += !(n < 0 && errno == ESRCH);
      close(fd);
    }
    finish(thread);
  }
  must(bad == 0);
  say("bad %ld", bad);
}

CASE(rename) {
  pthread_t thread;
  begin(&thread, 1);
  int fd = open(path_of(tids[0], "comm"), O_RDWR);
  need(fd >= 0);
  say("write: %s", result(write(fd, "0123456789abcdefghij", 20)));
  must(pread(fd, text, 64, 0) == 16);
  say("%.15s", text);
  char name[16];
  need(pthread_getname_np(thread, name, sizeof name) == 0);
  say("%s", name);
  say("short: %s", result(write(fd, "ab\n", 3)));
  need(pthread_getname_np(thread, name, sizeof name) == 0);
  say("%zu", strlen(name));
  say("nowhere: %s", result(write(fd, nowhere, 5)));
  close(fd);
  end(&thread, 1);
}

CASE(not_writable) {
  pthread_t thread;
  begin(&thread, 1);
  for (const char *const *name = (const char *const[]){"stat", "status", "schedstat", "limits", "wchan", NULL}; *name;
       name++) {
    int fd = open(path_of(tids[0], *name), O_RDONLY);
    say("%s: %s", *name, result(write(fd, "x", 1)));
    close(fd);
  }
  end(&thread, 1);
}

CASE(reading) {
  int fd = open("/proc/thread-self/stat", O_RDONLY);
  need(fd >= 0);
  char one[4096], two[4096];
  ssize_t len = pread(fd, one, sizeof one, 0), got = 0, n;
  while ((n = read(fd, two + got, 1)) == 1) got++;
  must(got > 100 && got >= len - 8 && got <= len + 8);
  say("at the end: %s", result(read(fd, two, 10)));
  say("past the end: %s", result(pread(fd, two, 10, 100000)));
  must(lseek(fd, 0, SEEK_SET) == 0);
  struct iovec parts[2] = {{one, 5}, {two, 4000}};
  must(readv(fd, parts, 2) > 50);
  int fresh = open("/proc/self/status", O_RDONLY);
  must(preadv2(fresh, parts, 2, -1, 0) > 50);
  say("written by pieces: %s", result(pwritev2(fresh, parts, 2, -1, 0)));
  close(fresh);
  say("nowhere: %s", result(pread(fd, nowhere, 10, 0)));
  close(fd);
}

CASE(read_again) {
  pthread_t threads[3];
  int fd = open("/proc/self/status", O_RDONLY);
  need(fd >= 0);
  for (int n = 0; n < 3; n++) {
    if (n) begin(threads, n);
    ssize_t len = pread(fd, text, sizeof text - 1, 0);
    need(len > 0);
    text[len] = 0;
    say("%.10s", strstr(text, "Threads:"));
    if (n) end(threads, n);
  }
  close(fd);
}

CASE(descriptors) {
  int fd = open("/proc/thread-self/comm", O_RDWR);
  need(fd >= 0);
  int copy = dup(fd), high = fcntl(fd, F_DUPFD, 100), over = dup2(fd, 50);
  need(copy >= 0 && high >= 100 && over == 50);
  must(read(copy, text, 2) == 2);
  say("shared place: %s", result(lseek(high, 0, SEEK_CUR)));
  say("write by a copy: %s", result(write(over, "copied", 6)));
  must(pread(fd, text, 64, 0) == 7);
  say("%.6s", text);
  close(fd);
  must(pread(copy, text, 64, 0) == 7);
  close(copy), close(high), close(over);
  say("closed: %s", result(read(over, text, 1)));
}

CASE(passed_on) {
  int ends[2], fd = open("/proc/thread-self/status", O_RDONLY);
  need(fd >= 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  char byte = 1, room[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec part = {&byte, 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
  struct cmsghdr *head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(head), &fd, sizeof fd);
  need(sendmsg(ends[0], &message, 0) == 1);
  close(fd);
  need(recvmsg(ends[1], &message, 0) == 1);
  memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
  must(read(fd, text, 64) > 5);
  say("%.5s", text);
  close(fd), close(ends[0]), close(ends[1]);
}

static int kept;

static void read_kept(void) {
  ssize_t n = read(kept, text, sizeof text);
  must(n > 50);
}

CASE(over_fork) {
  kept = open("/proc/self/stat", O_RDONLY);
  need(kept >= 0);
  in_child("child", read_kept);
  close(kept);
}

CASE(relative) {
  pthread_t thread;
  begin(&thread, 1);
  int self = open("/proc/self", O_RDONLY | O_DIRECTORY), task = openat(self, "task", O_RDONLY | O_DIRECTORY);
  need(self >= 0 && task >= 0);
  char name[40];
  struct stat st;
  sprintf(name, "%d/stat", tids[0]);
  say("stat %s, open %s", result(fstatat(task, name, &st, 0)), openat(task, name, O_RDONLY) >= 0 ? "ok" : "no");
  sprintf(name, "task/%d", tids[0]);
  int folder = openat(self, name, O_RDONLY | O_DIRECTORY);
  need(folder >= 0);
  say("access %s", result(faccessat(folder, "comm", R_OK, 0)));
  say("up: %s", result(fstatat(folder, "../../task", &st, 0)));
  say("shared: %s", openat(folder, "maps", O_RDONLY) >= 0 ? "ok" : "no");
  say("missing: %s", result(fstatat(task, "1", &st, 0)));
  say("empty: %s %s", result(fstatat(folder, "", &st, 0)), result(fstatat(folder, "", &st, AT_EMPTY_PATH)));
  say("a file is no folder: %s", result(fstatat(1, "stat", &st, 0)));
  say("absolute: %s", result(fstatat(-1, "/proc/self/task", &st, 0)));
  say("no descriptor: %s", result(fstatat(-1, "task", &st, 0)));
  need(fstat(task, &st) == 0);
  say("links %ld", (long)st.st_nlink);
  close(folder), close(task), close(self);
  end(&thread, 1);
}

CASE(many_lookups_while_threads_come_and_go) {
  atomic_int tid;
  long wrong = 0;
  for (int round = 0; round < 300; round++) {
    atomic_store(&tid, 0);
    pthread_t thread = start(short_lived, &tid);
    struct stat st;
    for (int i = 0; i < 10; i++) {
      pid_t now = atomic_load(&tid);
      if (now && stat(path_of(now, "comm"), &st) < 0) wrong += errno != ENOENT && errno != ESRCH;
      wrong += stat("/proc/thread-self/comm", &st) < 0;
    }
    finish(thread);
  }
  say("wrong %ld", wrong);
}

static void is_open(void) {
  for (int fd = 990; fd < 1010; fd++) must(fcntl(fd, F_GETFD) == 0);
}

/* Whatever descriptors the program takes are its own, in its children as well. */
CASE(all_numbers_are_the_programs) {
  struct stat st;
  for (int round = 0; round < 3; round++) {
    int fd = open("/proc/thread-self/stat", O_RDONLY);
    need(fd >= 0);
    for (int to = 990; to < 1010; to++) need(dup2(round == 1 ? fd : 1, to) == to);
    in_child("child", is_open);
    is_open();
    must(round == 1 ? pread(1000, text, 99, 0) == 99 : fstat(1000, &st) == 0);
    close(fd);
    fd = open("/proc/thread-self/comm", O_RDONLY);
    must(read(fd, text, 64) > 1);
    close(fd);
    is_open();
    if (round) for (int to = 990; to < 1010; to++) close(to);
    else syscall(SYS_close_range, 900, 1100, 0);
    fd = open("/proc/thread-self/comm", O_RDONLY);
    must(read(fd, text, 64) > 1);
    say("lowest %d, end %s", fd < 10, result(read(fd, text, 64)));
    close(fd);
  }
}
