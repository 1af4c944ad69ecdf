/* Which names there are in /proc of one's own threads, and what is answered for those that are not. */
#include "../check.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>

static pid_t tid_of_other;
static atomic_int ready, leave;

static void *other(void *arg) {
  (void)arg;
  tid_of_other = gettid();
  atomic_store(&ready, 1);
  while (!atomic_load(&leave)) sleep_ms(1);
  return NULL;
}

static pthread_t begin(void) {
  pthread_t thread;
  atomic_store(&ready, 0), atomic_store(&leave, 0);
  need(pthread_create(&thread, NULL, other, NULL) == 0);
  wait_until(atomic_load(&ready));
  return thread;
}

/* A thread may be listed for a moment after it has been joined. */
static bool is_alone(void) {
  struct stat st;
  return stat("/proc/self/task", &st) == 0 && st.st_nlink == 3;
}

static void end(pthread_t thread) {
  atomic_store(&leave, 1);
  need(pthread_join(thread, NULL) == 0);
  wait_until(is_alone());
}

/* %p: this process, %t: this thread, %o: the other thread. */
static const char *expand(const char *form) {
  static char path[400];
  char *to = path;
  for (; *form; form++) {
    if (*form != '%') *to++ = *form;
    else to += sprintf(to, "%d", *++form == 'p' ? getpid() : *form == 't' ? gettid() : tid_of_other);
  }
  *to = 0;
  return path;
}

static const char *open_result(const char *form, int flags) {
  int fd = open(expand(form), flags);
  const char *text = fd >= 0 ? "ok" : errname(errno);
  if (fd >= 0) close(fd);
  return text;
}

static const char *stat_result(const char *form) {
  struct stat st;
  return stat(expand(form), &st) == 0 ? "ok" : errname(errno);
}

static void each(const char *const *forms) {
  for (; *forms; forms++) {
    say("%s: stat %s, open %s, access %s", *forms, stat_result(*forms), open_result(*forms, O_RDONLY),
        access(expand(*forms), F_OK) == 0 ? "ok" : errname(errno));
  }
}

CASE(found) {
  pthread_t thread = begin();
  each((const char *const[]){"/proc/self/task/%o/stat", "/proc/%p/task/%o/status", "/proc/self/task/%t", "/proc/%o",
                             "/proc/%o/stat", "/proc/thread-self/comm", "/proc/self/", "/proc/self/task/",
                             "/proc//self//task//%o//comm", "/proc/./self/task/%o/comm", "/proc/././%o/stat", "/proc/self/./task/../task/%o/stat",
                             "/proc/self/task/%o/../%t/stat", "/proc/self/task/%o/../../stat", "/proc/thread-self/../%o",
                             "/proc/self/../%p/stat", "/proc/self/task/%o/wchan", "/proc/self/task/%o/schedstat",
                             "/proc/self/task/%o/children", "/proc/self/timers", "/proc/self/task/%o/limits", NULL});
  end(thread);
}

/* Whatever is listed of a process or thread is found by a thread's id, too. */
static void find_listed(const char *folder, const char *below) {
  DIR *listed = opendir(expand(folder));
  need(listed);
  for (struct dirent *entry; (entry = readdir(listed));) {
    char form[300];
    snprintf(form, sizeof form, "%s/%s", below, entry->d_name);
    struct stat found;
    if (entry->d_name[0] != '.' && lstat(expand(form), &found) != 0) say("%s: %s", form, errname(errno));
  }
  closedir(listed);
}
CASE(all_that_is_listed) {
  pthread_t thread = begin();
  find_listed("/proc/%p", "/proc/%o");
  find_listed("/proc/%p", "/proc/self");
  find_listed("/proc/%p/task/%p", "/proc/self/task/%o");
  find_listed("/proc/%p/task/%p", "/proc/thread-self");
  find_listed("/proc/%o", "/proc/%p");
  end(thread);
}

/* The directory of the threads by other ways: as many links and entries as by the plain one. */
static void count_threads(const char *what, int folder, const char *form) {
  struct stat found;
  int entries = 0, fd = openat(folder, expand(form), O_RDONLY | O_DIRECTORY);
  if (fd < 0) {
    say("%s %s: %s", what, form, errname(errno));
    return;
  }
  DIR *listed = fdopendir(fd);
  while (readdir(listed)) entries++;
  closedir(listed);
  need(fstatat(folder, expand(form), &found, 0) == 0);
  say("%s %s: %d links, %d entries", what, form, (int)found.st_nlink, entries);
}
CASE(by_other_ways) {
  pthread_t threads[6];
  for (int i = 0; i < COUNT(threads); i++) threads[i] = begin();
  settle();
  static const char *const whole[] = {"/proc/self/task", "/proc/../proc/self/task", "/../proc/./../proc/%o/task",
                                      "/proc/self/root/proc/self/task", "/proc/self/task/%o/root/proc/%p/task",
                                      "//proc/self/root//proc//self/task", "/proc/self/root/proc/self/maps"};
  for (int i = 0; i < COUNT(whole); i++) count_threads("whole", AT_FDCWD, whole[i]);
  static const struct {
    const char *folder, *forms[5];
  } below[] = {
      {"/", {"proc/self/task", "./proc/self/task", "../proc/%p/task", "proc//self/task", "proc/%o/../self/task"}},
      {"/proc", {"self/task", "./self/task", "../proc/self/task", "./%o/task", "../self/task"}},
      {"/proc/self", {"task", "./task", "../self/task", "../../proc/self/task", "./task/../task"}},
      {"/proc/self/task", {"../task", "./%o/../../task", "%o/../../task", "../../self/task", "%o/task"}},
      {"/tmp", {"../proc/self/task", "./../proc/self/task", "proc/self/task", "self/task", "../self/task"}},
  };
  for (int i = 0; i < COUNT(below); i++) {
    int fd = open(below[i].folder, O_RDONLY | O_DIRECTORY), path = open(below[i].folder, O_PATH);
    need(fd >= 0 && path >= 0 && fchdir(fd) == 0);
    for (int k = 0; k < 5; k++) {
      count_threads(below[i].folder, fd, below[i].forms[k]);
      count_threads("O_PATH", path, below[i].forms[k]);
      count_threads("folder", AT_FDCWD, below[i].forms[k]);
    }
    char form[64];
    for (int k = 0; k < 2; k++) {
      snprintf(form, sizeof form, "/%s/%d/%s", k ? "dev/fd" : "proc/self/fd", path, below[i].forms[0]);
      struct stat found = {0};
      const char *answer = result(stat(expand(form), &found));
      say("by its number: %s, %d links", answer, (int)found.st_nlink);
    }
    count_threads("working directory", AT_FDCWD, "/proc/self/cwd/task");
    close(fd), close(path);
  }
  need(chdir("/") == 0);
  for (int i = 0; i < COUNT(threads); i++) end(threads[i]);
}

CASE(hosts_below_a_thread) {
  pthread_t thread = begin();
  each((const char *const[]){"/proc/self/task/%o/maps", "/proc/self/task/%o/exe", "/proc/self/task/%o/cwd",
                             "/proc/self/task/%o/fd", "/proc/self/task/%o/fd/1", "/proc/self/task/%o/ns/net",
                             "/proc/thread-self/environ", "/proc/thread-self/fdinfo", "/proc/self/task/%o/cmdline",
                             "/proc/self/task/%o/root/", "/proc/self/maps", "/proc/self/exe", "/proc/self/fd/1", NULL});
  end(thread);
}

CASE(missing) {
  pthread_t thread = begin();
  each((const char *const[]){"/proc/self/task/0", "/proc/self/task/1", "/proc/self/task/%o0", "/proc/self/task/0%o",
                             "/proc/self/task/+%o", "/proc/self/task/-%o", "/proc/self/task/ %o", "/proc/self/task/%o ",
                             "/proc/self/task/4294967296", "/proc/self/task/99999999999999999999", "/proc/self/task/x",
                             "/proc/0%p", "/proc/+%p", "/proc/self/task/%o/task", "/proc/self/task/%o/timers",
                             "/proc/self/task/%o/nothing", "/proc/self/nothing", "/proc/self/task/nothing",
                             "/proc/thread-self/task", "/proc/self/task/%o/Stat", "/proc/0", "/proc/Self", NULL});
  end(thread);
}

CASE(no_directory) {
  pthread_t thread = begin();
  each((const char *const[]){"/proc/self/task/%o/stat/", "/proc/self/task/%o/stat/.", "/proc/self/task/%o/stat/..",
                             "/proc/self/task/%o/comm/x", "/proc/self/stat/", "/proc/thread-self/comm/", NULL});
  end(thread);
}

CASE(too_long) {
  char path[400] = "/proc/self/task/";
  memset(path + strlen(path), 'x', 256);
  each((const char *const[]){path, NULL});
  path[16 + 255] = 0;
  each((const char *const[]){path, NULL});
  say("empty: %s", open_result("", O_RDONLY));
  say("nowhere: %s", result(syscall(SYS_open, (char *)8, O_RDONLY)));
  say("stat nowhere: %s", result(syscall(SYS_access, (char *)8, F_OK)));
  say("to nowhere: %s", result(syscall(SYS_newfstatat, AT_FDCWD, "/proc/self/task", (char *)8, 0)));
}

/* At the end of a page, behind which there may be nothing, and over two pages. */
CASE(anywhere_in_memory) {
  pthread_t thread = begin();
  char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  need(pages != MAP_FAILED && mprotect(pages + 2 * 4096, 4096, PROT_NONE) == 0);
  static const char *const names[] = {"/proc/self/task", "//proc/self/task", "self/task", "."};
  int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY), proc = open("/proc", O_RDONLY | O_DIRECTORY);
  need(folder >= 0 && proc >= 0);
  for (int i = 0; i < COUNT(names); i++) {
    int len = strlen(names[i]) + 1;
    long links[2] = {0, 0};
    for (int before = 1; before <= 16; before++) {
      struct stat at;
      char *path = strcpy(pages + 4096 - before, names[i]);
      links[0] += fstatat(*names[i] == '.' ? folder : proc, path, &at, 0) ? -1000 : (long)at.st_nlink;
    }
    char *path = strcpy(pages + 2 * 4096 - len, names[i]);
    struct stat at;
    links[1] = fstatat(*names[i] == '.' ? folder : proc, path, &at, 0) ? -1000 : (long)at.st_nlink;
    say("%s: %ld %ld", names[i], links[0], links[1]);
  }
  close(folder), close(proc);
  munmap(pages, 3 * 4096);
  end(thread);
}

CASE(links) {
  pthread_t thread = begin();
  char text[64], wanted[64];
  ssize_t len = readlink("/proc/self", text, sizeof text - 1);
  text[len > 0 ? len : 0] = 0;
  sprintf(wanted, "%d", getpid());
  must(strcmp(text, wanted) == 0);
  len = readlink("/proc/thread-self", text, sizeof text - 1);
  text[len > 0 ? len : 0] = 0;
  sprintf(wanted, "%d/task/%d", getpid(), gettid());
  must(strcmp(text, wanted) == 0);
  say("cut: %s", result(readlink("/proc/self", text, 1)));
  say("no room: %s", result(readlink("/proc/self", text, 0)));
  say("no link: %s", result(readlink("/proc/self/stat", text, 8)));
  say("a folder: %s", result(readlink(expand("/proc/self/task/%o"), text, 8)));
  say("nothing: %s", result(readlink(expand("/proc/self/task/%o0/exe"), text, 8)));
  say("behind a link: %s", result(readlink("/proc/self/", text, 8)));
  char a[200], b[200];
  memset(a, 0, sizeof a), memset(b, 0, sizeof b);
  must(readlink(expand("/proc/self/task/%o/exe"), a, sizeof a - 1) == readlink("/proc/self/exe", b, sizeof b - 1));
  must(strcmp(a, b) == 0 && a[0] == '/');
  say("nofollow: %s", open_result("/proc/self", O_RDONLY | O_NOFOLLOW));
  say("nofollow path: %s", open_result("/proc/self", O_PATH | O_NOFOLLOW));
  say("nofollow behind: %s", open_result("/proc/self/", O_RDONLY | O_NOFOLLOW));
  end(thread);
}

/* The same by other names: relative to a descriptor of /proc, to a working directory, with empty names. */
static long links_at(int dir, const char *path) {
  struct stat st;
  return fstatat(dir, path, &st, 0) == 0 ? (long)st.st_nlink : -1;
}
CASE(other_names) {
  pthread_t thread = begin();
  int proc = open("/proc", O_RDONLY | O_DIRECTORY), self = open("/proc/self", O_PATH);
  static const char *const names[] = {"self/task", "self/task/", "thread-self/stat", "self/nothing", "uptime"};
  for (int i = 0; i < COUNT(names); i++) say("%s: %s", names[i], result(links_at(proc, names[i])));
  say("by id: %s", result(links_at(proc, expand("%o/task") )));
  say("thread: %s", result(links_at(proc, expand("self/task/%o"))));
  say("task: %s", result(links_at(self, "task")));
  need(chdir("/proc") == 0);
  say("in /proc: %s", result(links_at(AT_FDCWD, "self/task")));
  say("thread: %s", stat_result("self/task/%o/stat"));
  need(chdir("self") == 0);
  say("in itself: %s", result(links_at(AT_FDCWD, "task")));
  need(chdir("task") == 0 && chdir("/") == 0);
  each((const char *const[]){"//proc/self/task/%o/stat", "/./proc//%p/task/%o", NULL});
  say("slashes: %s", result(links_at(AT_FDCWD, "//proc/self/task")));
  close(proc), close(self);
  end(thread);
}

CASE(flags) {
  pthread_t thread = begin();
  const char *stat = "/proc/self/task/%o/stat", *folder = "/proc/self/task/%o";
  say("directory: %s %s", open_result(stat, O_DIRECTORY), open_result(folder, O_DIRECTORY));
  say("write a folder: %s %s", open_result(folder, O_WRONLY), open_result("/proc/self/task", O_RDWR));
  say("exclusive: %s", open_result(stat, O_CREAT | O_EXCL));
  say("path: %s %s", open_result(stat, O_PATH), open_result(folder, O_PATH));
  say("truncate comm: %s", open_result("/proc/self/task/%o/comm", O_WRONLY | O_TRUNC));
  say("create what is there: %s", open_result("/proc/self/task/%o/comm", O_WRONLY | O_CREAT));
  int fd = open(expand(stat), O_RDONLY | O_CLOEXEC);
  say("cloexec: %s", result(fcntl(fd, F_GETFD)));
  close(fd);
  end(thread);
}

CASE(flags_that_are_refused) {
  static const char path[] = "/proc/self/stat";
  struct stat st;
  char room[256];
  for (int bit = 9; bit < 18; bit++)
    say("fstatat %x: %s", 1 << bit, result(syscall(SYS_newfstatat, AT_FDCWD, path, &st, 1 << bit)));
  for (int bit = 8; bit < 18; bit++)
    say("faccessat2 %x: %s", 1 << bit, result(syscall(SYS_faccessat2, AT_FDCWD, path, R_OK, 1 << bit)));
  static const unsigned flags[] = {0, 0x200, 0x2000, 0x4000, 0x6000, 0x10000};
  for (unsigned k = 0; k < sizeof flags / sizeof *flags; k++)
    say("statx %x: %s", flags[k], result(syscall(SYS_statx, AT_FDCWD, path, flags[k], STATX_BASIC_STATS, room)));
  say("reserved: %s", result(syscall(SYS_statx, AT_FDCWD, path, 0, 0x80000000u, room)));
  say("direct: %s", open_result(path, O_RDONLY | O_DIRECT));
  say("made: %s, %s", open_result("/proc/self/task", O_RDONLY | O_CREAT), open_result("/proc/self", O_RDONLY | O_CREAT));
}

/* As `kstrtoull` reads numbers. */
CASE(slack) {
  static const char *texts[] = {"5", "+6\n", "7\n\n", "", "\n", "-1", " 8", "9 ", "0x9", "000000000000000000000000000000000000000010",
                                "18446744073709551615", "18446744073709551616", "0\n"};
  int fd = open("/proc/self/timerslack_ns", O_WRONLY);
  need(fd >= 0);
  for (unsigned k = 0; k < sizeof texts / sizeof *texts; k++) {
    ssize_t written = write(fd, texts[k], strlen(texts[k]));
    say("%u: %s, slack %d", k, result(written), prctl(PR_GET_TIMERSLACK));
  }
  say("up to a zero: %s, %d", result(write(fd, "11\0x", 4)), prctl(PR_GET_TIMERSLACK));
  close(fd);
}

/* Only the directories of threads let a process that is not dumpable write names. */
static void not_dumpable(void) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/comm", getpid());
  need(setresuid(65534, 65534, 65534) == 0);
  say("process: %s", open_result("/proc/self/comm", O_WRONLY));
  say("thread: %s", open_result(path, O_WRONLY));
}
CASE(names_of_one_that_is_not_dumpable) {
  if (geteuid() != 0) return say("not root");
  in_child("child", not_dumpable);
}

CASE(access_modes) {
  pthread_t thread = begin();
  for (int mode = 0; mode <= 7; mode++) {
    say("mode %d: folder %s, comm %s", mode, result(access(expand("/proc/self/task/%o"), mode & ~2)),
        result(access(expand("/proc/self/task/%o/comm"), mode)));
  }
  say("bad mode: %s", result(access(expand("/proc/self/task/%o/comm"), 8)));
  say("effective: %s", result(faccessat(AT_FDCWD, expand("/proc/self/task/%o/comm"), W_OK, AT_EACCESS)));
  say("execute stat: %s", result(access(expand("/proc/self/task/%o/stat"), X_OK)));
  end(thread);
}

struct how {
  uint64_t flags, mode, resolve;
};

static const char *how_result(int folder, const char *form, struct how how, size_t size) {
  int fd = (int)syscall(SYS_openat2, folder, expand(form), &how, size);
  const char *text = fd >= 0 ? "ok" : errname(errno);
  if (fd >= 0) close(fd);
  return text;
}

enum { NO_XDEV = 1, NO_MAGICLINKS = 2, NO_SYMLINKS = 4, BENEATH = 8, IN_ROOT = 16 };

CASE(openat2_from_a_folder) {
  pthread_t thread = begin();
  int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY);
  need(folder >= 0);
  for (const char *const *form =
           (const char *const[]){"%o/stat", "%o", ".", "..", "%o/..", "../task/%o/stat", "%o/../../stat", "%o/stat/",
                                 "%o/nothing", "0", "%o/exe", "%o/maps", "%o/fd/1", "/proc/self/task/%o/stat", NULL};
       *form; form++) {
    for (uint64_t resolve = 0; resolve <= 16; resolve = resolve ? resolve * 2 : 1) {
      say("%s by %d: %s", *form, (int)resolve, how_result(folder, *form, (struct how){O_RDONLY, 0, resolve}, 24));
    }
  }
  close(folder);
  end(thread);
}

CASE(openat2_by_path) {
  pthread_t thread = begin();
  for (const char *const *form = (const char *const[]){"/proc/self/task/%o/comm", "/proc/%p/task/%o/comm", "/proc/self",
                                                       "/proc/thread-self/stat", "/proc/%o", "/proc/%p/task/%o/exe", NULL};
       *form; form++) {
    for (uint64_t resolve = 0; resolve <= 8; resolve = resolve ? resolve * 2 : 1) {
      say("%s by %d: %s, the path %s", *form, (int)resolve, how_result(AT_FDCWD, *form, (struct how){O_RDONLY, 0, resolve}, 24),
          how_result(AT_FDCWD, *form, (struct how){O_PATH | O_NOFOLLOW, 0, resolve}, 24));
    }
  }
  const char *comm = "/proc/self/task/%o/comm";
  say("write %s, truncate %s", how_result(AT_FDCWD, comm, (struct how){O_RDWR, 0, 0}, 24),
      how_result(AT_FDCWD, comm, (struct how){O_WRONLY | O_TRUNC, 0, 0}, 24));
  say("a mode %s", how_result(AT_FDCWD, comm, (struct how){O_RDONLY, 0644, 0}, 24));
  say("flags %s", how_result(AT_FDCWD, comm, (struct how){1ull << 40, 0, 0}, 24));
  say("both %s", how_result(AT_FDCWD, comm, (struct how){O_RDONLY, 0, BENEATH | IN_ROOT}, 24));
  say("unknown %s", how_result(AT_FDCWD, comm, (struct how){O_RDONLY, 0, 64}, 24));
  say("short %s", how_result(AT_FDCWD, comm, (struct how){O_RDONLY, 0, 0}, 16));
  say("cached and truncated %s", how_result(AT_FDCWD, comm, (struct how){O_WRONLY | O_TRUNC, 0, 32}, 24));
  uint64_t longer[4] = {O_RDONLY, 0, 0, 0};
  int fd = (int)syscall(SYS_openat2, AT_FDCWD, expand(comm), longer, sizeof longer);
  say("longer %d", fd >= 0);
  close(fd);
  longer[3] = 1;
  say("with more %s", result(syscall(SYS_openat2, AT_FDCWD, expand(comm), longer, sizeof longer)));
  say("nowhere %s", result(syscall(SYS_openat2, AT_FDCWD, expand(comm), (void *)8, 24)));
  fd = (int)syscall(SYS_openat2, AT_FDCWD, expand(comm), &(struct how){O_RDWR, 0, NO_SYMLINKS}, 24);
  say("a link on the way %d", fd);
  fd = (int)syscall(SYS_openat2, AT_FDCWD, expand("/proc/%p/task/%o/comm"), &(struct how){O_RDWR, 0, NO_SYMLINKS}, 24);
  char name[16];
  must(write(fd, "by openat2", 10) == 10);
  need(pthread_getname_np(thread, name, sizeof name) == 0);
  say("%s", name);
  close(fd);
  end(thread);
}

/* Whoever has looked once finds it again without waiting (RESOLVE_CACHED, 32). */
CASE(openat2_without_waiting) {
  pthread_t thread = begin();
  for (const char *const *form = (const char *const[]){"/proc/self/stat", "/proc/self/task", "/proc/self/task/%o/comm", "/proc/%p/task/%o",
                                                       "/proc/thread-self/stat", NULL};
       *form; form++) {
    const char *first = how_result(AT_FDCWD, *form, (struct how){O_RDONLY, 0, 0}, 24);
    say("%s: %s, again %s, the path %s", *form, first, how_result(AT_FDCWD, *form, (struct how){O_RDONLY, 0, 32}, 24),
        how_result(AT_FDCWD, *form, (struct how){O_PATH, 0, 32}, 24));
  }
  end(thread);
}

/* Up and out again: the machine's files, whoever they are asked by. */
CASE(above) {
  pthread_t thread = begin();
  char text[64];
  for (const char *const *form = (const char *const[]){"/proc/self/../uptime", "/proc/self/task/%t/../../uptime",
                                                       "/proc/%p/../loadavg", "/proc/self/../stat", "/proc/self/../../dev/null",
                                                       "/proc/%p/../../dev/null", "/proc/thread-self/../../../sys/kernel/pid_max",
                                                       "/proc/%p/../nothing", "/proc/self/../cpuinfo", "/proc/%p/..", NULL};
       *form; form++) {
    int fd = open(expand(*form), O_RDONLY);
    say("%s: %s, text %d", *form, fd >= 0 ? "ok" : errname(errno), fd >= 0 && read(fd, text, sizeof text) > 0);
    close(fd);
  }
  end(thread);
}
