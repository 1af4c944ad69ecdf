//@ root
//@ options: --no-note
/* What a program keeps when it gives up its user, and what goes with an exec that gives rights: nothing of ours. */
#include "../check.h"
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/xattr.h>

extern char **environ;

static void *lock_and_unlock(void *mutex) {
  pthread_mutex_lock(mutex);
  pthread_mutex_unlock(mutex);
  return NULL;
}

/* Mappings of files that are shared and can be written, but for those that this program has made itself. */
static int shared_and_writable(void) {
  FILE *maps = fopen("/proc/./self/maps", "r");
  need(maps);
  char line[4096];
  int found = 0;
  while (fgets(line, sizeof line, maps)) {
    char rights[8] = "", path[4000] = "";
    if (sscanf(line, "%*s %7s %*s %*s %*s %3999s", rights, path) < 2) continue;
    if (rights[1] == 'w' && rights[3] == 's' && strstr(path, "/dev/shm")) found++;
  }
  fclose(maps);
  return found;
}

/* Threads and a shared lock: all that is shared between the processes of a user has been used. */
static void use_threads(void) {
  pthread_mutexattr_t shared;
  pthread_mutex_t *mutex = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  need(mutex != MAP_FAILED);
  pthread_mutexattr_init(&shared);
  pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(mutex, &shared);
  pthread_t locker;
  need(!pthread_create(&locker, NULL, lock_and_unlock, mutex) && !pthread_join(locker, NULL));
}

static void drop_user(void) {
  use_threads();
  need(!setresgid(65534, 65534, 65534) && !setresuid(65534, 65534, 65534));
  say("shared and writable: %d", shared_and_writable());
}
CASE(after_setuid) { in_child("child", drop_user); }

static void drop_effective_user(void) {
  use_threads();
  need(!setresuid(-1, 65534, -1));
  say("shared and writable: %d", shared_and_writable());
  need(!setresuid(-1, 0, -1));
  pthread_t thread;
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  need(!pthread_create(&thread, NULL, lock_and_unlock, &mutex) && !pthread_join(thread, NULL));
  say("back");
}
CASE(after_seteuid) { in_child("child", drop_effective_user); }

/* What the new program sees: this one, with an argument that is no case. */
static void tell(void) {
  int ours = 0;
  for (char **entry = environ; *entry; entry++) {
    ours += !strncmp(*entry, "ENTRESOL", 8) || !strncmp(*entry, "LD_", 3);
  }
  printf("secure %lu, ours %d\n", getauxval(AT_SECURE), ours);
}

static void execute(const char *path) {
  char *arguments[] = {(char *)path, NULL};
  char *variables[] = {"CHECK_TELL=1", NULL};
  fflush(stdout);
  execve(path, arguments, variables);
  say("exec: %s", errname(errno));
}

__attribute__((constructor)) static void tell_if_asked(void) {
  if (!getenv("CHECK_TELL")) return;
  tell();
  fflush(stdout);
  _exit(0);
}

static void copy_of_myself(char *path, mode_t mode) {
  strcpy(path, "/var/tmp/entresol-protection-XXXXXX");
  int to = mkstemp(path), from = open("/proc/./self/exe", O_RDONLY);
  need(to >= 0 && from >= 0);
  char buffer[1 << 16];
  for (ssize_t n; (n = read(from, buffer, sizeof buffer)) > 0;) need(write(to, buffer, n) == n);
  need(!fchmod(to, mode));
  close(from);
  close(to);
}

static char copy[64];
static bool unprivileged;

static void execute_copy(void) {
  if (unprivileged) need(!setresgid(65534, 65534, 65534) && !setresuid(65534, 65534, 65534));
  execute(copy);
}

CASE(executes_as_itself) {
  copy_of_myself(copy, 0755);
  in_child("child", execute_copy);
  unlink(copy);
}

CASE(executes_a_set_user_id_file) {
  copy_of_myself(copy, 04755);
  unprivileged = true;
  in_child("child", execute_copy);
  unlink(copy);
}

CASE(executes_a_file_with_capabilities) {
  copy_of_myself(copy, 0755);
  /* vfs_cap_data, revision 2, effective: CAP_NET_BIND_SERVICE. */
  uint32_t capabilities[5] = {0x02000001, 1 << 10, 0, 0, 0};
  int set = setxattr(copy, "security.capability", capabilities, sizeof capabilities, 0);
  say("set %d", set);
  unprivileged = true;
  in_child("child", execute_copy);
  unlink(copy);
}

static void execute_with_two_users(void) {
  need(!setresuid(-1, 65534, -1));
  execute(copy);
}
CASE(executes_with_an_effective_user) {
  copy_of_myself(copy, 0755);
  in_child("child", execute_with_two_users);
  unlink(copy);
}

static void execute_with_two_groups(void) {
  need(!setresgid(-1, 65534, -1));
  execute(copy);
}
CASE(executes_with_an_effective_group) {
  copy_of_myself(copy, 0755);
  in_child("child", execute_with_two_groups);
  unlink(copy);
}
