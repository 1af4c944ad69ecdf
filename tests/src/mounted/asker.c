/* asker KIND FOLDER PID...: becomes an asker of that kind and tries every file of these processes, for reading and for
 * writing, in a folder like /proc. One line for each says what came of it. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void need(int there, const char *what) {
  if (there) return;
  perror(what);
  exit(1);
}

static void become_user(uid_t user) {
  need(!setgroups(0, NULL) && !setresgid(user, user, user) && !setresuid(user, user, user), "user");
  need(!prctl(PR_SET_DUMPABLE, 1), "dumpable");
}

static void drop_capabilities(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[2] = {{0}};
  need(!syscall(SYS_capset, &header, none), "capabilities");
  need(!prctl(PR_SET_DUMPABLE, 1), "dumpable");
}

static void become(const char *kind) {
  if (!strcmp(kind, "root")) return;
  if (!strcmp(kind, "other-user")) return become_user(65533);
  if (!strcmp(kind, "same-user")) return become_user(65534);
  if (!strcmp(kind, "without-capabilities")) return drop_capabilities();
  if (!strcmp(kind, "no-new-privileges")) {
    become_user(65534);
    need(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
  } else if (!strcmp(kind, "user-namespace")) {
    become_user(65534);
    need(!unshare(CLONE_NEWUSER), "user namespace");
  } else if (!strcmp(kind, "roots-user-namespace")) {
    need(!unshare(CLONE_NEWUSER), "user namespace");
  } else if (!strcmp(kind, "pid-namespace")) {
    need(!unshare(CLONE_NEWPID), "pid namespace");
    pid_t child = fork();
    if (child > 0) {
      int status;
      need(waitpid(child, &status, 0) == child, "wait");
      exit(WEXITSTATUS(status));
    }
    become_user(65534);
  } else {
    need(0, kind);
  }
}

/* Something that the file takes if the asker may write to it, and that changes nothing. */
static const char *value(const char *name) {
  static const char *values[][2] = {{"autogroup", "0"},       {"timerslack_ns", "50000"}, {"oom_score_adj", "0"},
                                    {"coredump_filter", "33"}, {"clear_refs", "1"},        {"oom_adj", "0"},
                                    {"make-it-fail", "0"},    {"sched", "0"}};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    if (!strcmp(values[i][0], name)) return values[i][1];
  return "x";
}

/* Files that only the process itself may write to, or ask about: over a mount the writer is the one who serves it. */
static int is_for_itself(const char *name, const char *path) {
  static const char *names[] = {"comm", "timerslack_ns", "loginuid"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(names[i], name)) return 1;
  return strstr(path, "/attr/") != NULL;
}

/* Whether autogroup took the value so far as the asker's rights go. It takes one value in 100 ms of everybody without
 * CAP_SYS_ADMIN (EAGAIN), and none for the default group (EINVAL), which it says only of a value that came in time
 * (proc_sched_autogroup_set_nice). */
static int is_allowed_autogroup(const char *name) {
  return !strcmp(name, "autogroup") && (errno == EAGAIN || errno == EINVAL);
}

static const char *outcome(ssize_t result) { return result >= 0 ? "yes" : strerrorname_np(errno); }

static void try_file(const char *path, const char *shown, const char *name) {
  static char buffer[4096];
  if (strstr(path, "/self/") && is_for_itself(name, path)) return;
  const char *read_out, *write_out;
  struct stat stat;
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  read_out = outcome(fd);
  if (fd >= 0) {
    /* Of `mem` too: nothing is mapped at 0. */
    ssize_t n = read(fd, buffer, sizeof buffer);
    read_out = outcome(n);
    close(fd);
  }
  printf("%s read %s", shown, read_out);
  /* This one can be written to once. */
  if (strcmp(name, "loginuid")) {
    fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    write_out = outcome(fd);
    if (fd >= 0) {
      ssize_t n = write(fd, value(name), strlen(value(name)));
      write_out = n < 0 && is_allowed_autogroup(name) ? "yes" : outcome(n);
      close(fd);
    }
    printf(" write %s", write_out);
  }
  printf(" access %s", access(path, R_OK) ? strerrorname_np(errno) : "yes");
  printf(" stat %s\n", lstat(path, &stat) ? strerrorname_np(errno) : "yes");
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void try_folder(const char *path, const char *shown, int depth) {
  DIR *folder = opendir(path);
  if (!folder) {
    printf("%s list %s\n", shown, strerrorname_np(errno));
    return;
  }
  char *names[4096];
  int count = 0;
  errno = 0;
  for (struct dirent *entry; count < 4096 && (entry = readdir(folder));)
    if (entry->d_name[0] != '.') names[count++] = strdup(entry->d_name);
  closedir(folder);
  qsort(names, count, sizeof *names, by_name);
  for (int i = 0; i < count; i++) {
    char below[4096], below_shown[4096], text[4096];
    snprintf(below, sizeof below, "%s/%s", path, names[i]);
    snprintf(below_shown, sizeof below_shown, "%s/%s", shown, names[i]);
    struct stat stat;
    if (lstat(below, &stat)) {
      /* The descriptor by which the folder was listed is closed. */
      if (errno != ENOENT || !strstr(below, "/self/fd")) printf("%s stat %s\n", below_shown, strerrorname_np(errno));
    } else if (S_ISREG(stat.st_mode)) {
      try_file(below, below_shown, names[i]);
    } else if (S_ISLNK(stat.st_mode)) {
      printf("%s link %s\n", below_shown, outcome(readlink(below, text, sizeof text)));
    } else if (S_ISDIR(stat.st_mode) && depth && strcmp(names[i], "task") && strcmp(names[i], "net") &&
               strcmp(names[i], "map_files")) {
      try_folder(below, below_shown, depth - 1);
    }
  }
}

int main(int count, char **arguments) {
  need(count > 3, "arguments");
  become(arguments[1]);
  for (int i = 3; i < count; i++) {
    char path[4096], shown[64];
    snprintf(shown, sizeof shown, "%d", i - 2);
    snprintf(path, sizeof path, "%s/%s", arguments[2], arguments[i]);
    try_folder(path, shown, 1);
  }
  return fflush(stdout) != 0;
}
