/* The errors of execveat(2), and in which order they are found: a path that cannot be read, flags, then the file. */
#include "check.h"
#include <fcntl.h>
#include <sys/stat.h>

enum { CHECK = 0x10000 }; /* AT_EXECVE_CHECK, since Linux 6.14 */

static int folder, file, found, closed = 9999;
static char *none[] = {NULL}, *one[] = {"true", NULL}, too_long[PATH_MAX + 2];

static const struct {
  const char *name;
  int flags;
} flag_sets[] = {
    {"0", 0},
    {"nofollow", AT_SYMLINK_NOFOLLOW},
    {"empty", AT_EMPTY_PATH},
    {"empty|nofollow", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW},
    {"1", 1},
    {"eaccess", AT_EACCESS},
    {"eaccess|nofollow", AT_EACCESS | AT_SYMLINK_NOFOLLOW},
    {"2|empty", 2 | AT_EMPTY_PATH},
    {"check|1", CHECK | 1},
    {"minus 1", -1},
};

static const struct {
  const char *name;
  int *fd;
} folders[] = {{"cwd", NULL}, {"folder", &folder}, {"file", &file}, {"O_PATH", &found}, {"closed", &closed}};

static const char *const paths[] = {
    "",         "nowhere",          "nowhere/at/all", "plain",   "plain/x", "link",   "dangling",
    "itself",   "/nowhere/at/all",  "/",              ".",       "/etc/passwd",       "/etc/passwd/x",
    "foreign",  NULL,               (char *)8,        too_long,
};

static const char *path_name(const char *path) {
  return path == too_long ? "too long" : path == NULL ? "null" : (uintptr_t)path == 8 ? "bad" : path;
}

/* Files none of which can be executed: "plain" has no such mode, "foreign" has no known form. */
static void prepare(void) {
  char place[] = "/tmp/execveat-XXXXXX";
  need(mkdtemp(place) && chdir(place) == 0);
  need((file = open("plain", O_CREAT | O_RDWR, 0600)) >= 0);
  int foreign = open("foreign", O_CREAT | O_RDWR, 0700);
  need(foreign >= 0 && write(foreign, "no program", 10) == 10 && close(foreign) == 0);
  need(symlink("plain", "link") == 0 && symlink("gone", "dangling") == 0 && symlink("itself", "itself") == 0);
  need((folder = open(".", O_RDONLY | O_DIRECTORY)) >= 0);
  need((found = open("foreign", O_PATH)) >= 0);
  memset(too_long, 'x', sizeof too_long - 1);
}

static void clean(void) {
  char place[64];
  need(getcwd(place, sizeof place) != NULL);
  const char *const names[] = {"plain", "foreign", "link", "dangling", "itself"};
  for (size_t i = 0; i < 5; i++) need(unlink(names[i]) == 0);
  need(rmdir(place) == 0 && chdir("/") == 0);
}

static void table(const char *who) {
  for (size_t f = 0; f < sizeof flag_sets / sizeof *flag_sets; f++)
    for (size_t d = 0; d < sizeof folders / sizeof *folders; d++)
      for (size_t p = 0; p < sizeof paths / sizeof *paths; p++) {
        int fd = folders[d].fd ? *folders[d].fd : AT_FDCWD;
        long result = syscall(SYS_execveat, fd, paths[p], none, none, flag_sets[f].flags);
        say("%s, %s, %s, '%s': %ld %s", who, flag_sets[f].name, folders[d].name, path_name(paths[p]), result,
            strerrorname_np(errno));
      }
}

static void *by_thread(void *who) {
  table(who);
  return NULL;
}

CASE(one_thread) {
  prepare();
  table("alone");
  clean();
}

CASE(two_threads) {
  pthread_t thread;
  prepare();
  need(pthread_create(&thread, NULL, by_thread, "thread") == 0 && pthread_join(thread, NULL) == 0);
  clean();
}

CASE(children) {
  int status;
  prepare();
  pid_t child = fork();
  if (child == 0) {
    table("forked");
    _exit(0);
  }
  need(waitpid(child, &status, 0) == child && status == 0);
  child = vfork();
  if (child == 0) {
    table("borrower");
    _exit(0);
  }
  need(waitpid(child, &status, 0) == child && status == 0);
  clean();
}

/* Only the lower half of the word counts, and a program that may be executed is not if it is only asked for. */
CASE(flags_are_an_int) {
  int status;
  pid_t child = fork();
  if (child == 0) {
    syscall(SYS_execveat, AT_FDCWD, "/bin/true", one, none, 1UL << 32);
    _exit(1);
  }
  need(waitpid(child, &status, 0) == child);
  say("upper half: %d", status);
  say("refused: %ld %s", syscall(SYS_execveat, AT_FDCWD, "/bin/true", one, none, 1), strerrorname_np(errno));
  say("asked: %ld", syscall(SYS_execveat, AT_FDCWD, "/bin/true", one, none, CHECK));
  say("asked for nothing: %ld %s", syscall(SYS_execveat, AT_FDCWD, "/nowhere", one, none, CHECK), strerrorname_np(errno));
}
