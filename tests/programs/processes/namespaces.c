/* Namespaces that a process with one thread leaves or joins hold for all that it does from then on, its later threads included.
 * Whoever is not root leaves them from a user namespace of its own. */
#include "../check.h"
#include <fcntl.h>
#include <net/if.h>
#include <sys/stat.h>

static const int kinds[] = {CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWCGROUP};
static const char *const files[] = {"mnt", "uts", "ipc", "net", "cgroup"};

/* As much as root has. */
static void become_able(void) {
  if (geteuid() != 0) say("users %s", result(unshare(CLONE_NEWUSER)));
}

static ino_t space(const char *whose, const char *file) {
  char path[64];
  struct stat found = {0};
  snprintf(path, sizeof path, "/proc/%s/ns/%s", whose, file);
  if (stat(path, &found) != 0) say("%s of %s: %s", file, whose, errname(errno));
  return found.st_ino;
}

static void leave_each(void) {
  ino_t before[COUNT(kinds)];
  for (int i = 0; i < COUNT(kinds); i++) before[i] = space("self", files[i]);
  become_able();
  for (int i = 0; i < COUNT(kinds); i++) say("%s: %s", files[i], result(unshare(kinds[i])));
  for (int i = 0; i < COUNT(kinds); i++) say("%s: another %d", files[i], space("self", files[i]) != before[i]);
  say("the network has a first interface %d, no second %d", if_nametoindex("lo") == 1, if_nametoindex("eth0") == 0);
  say("at once %s", result(unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET)));
}
CASE(each) { in_child("child", leave_each); }

/* Many threads, of which some wait on host threads of their own. */
enum { WAITERS = 8 };
static char expected[] = "entresol-inside";
static void *asker(void *fd) {
  char byte, name[65];
  int right = 0;
  for (int i = 0; i < 20; i++) {
    need(read((intptr_t)fd, &byte, 1) == 1);
    need(gethostname(name, sizeof name) == 0);
    right += !strcmp(name, expected);
    sched_yield();
  }
  return (void *)(intptr_t)right;
}
static void threads_inside(void) {
  become_able();
  need(unshare(CLONE_NEWUTS) == 0 && sethostname(expected, sizeof expected - 1) == 0);
  int fds[2];
  need(pipe(fds) == 0);
  pthread_t threads[WAITERS];
  for (int i = 0; i < WAITERS; i++) threads[i] = start(asker, (void *)(intptr_t)fds[0]);
  char bytes[WAITERS] = {0};
  for (int i = 0; i < 20; i++) need(write(fds[1], bytes, WAITERS) == WAITERS);
  for (int i = 0; i < WAITERS; i++) say("%d right", (int)(intptr_t)finish(threads[i]));
}
CASE(threads) { in_child("child", threads_inside); }

/* The other one keeps its name. */
static void name_for_a_child(void) {
  char before[65], after[65];
  need(gethostname(before, sizeof before) == 0);
  in_child("inner", threads_inside);
  need(gethostname(after, sizeof after) == 0);
  say("kept %d", !strcmp(before, after));
}
CASE(parent_keeps_its_own) { name_for_a_child(); }

static void users(void) {
  uid_t user = geteuid();
  char map[32];
  say("new %s", result(unshare(CLONE_NEWUSER)));
  say("nobody %d", geteuid() == 65534);
  int file = open("/proc/self/uid_map", O_WRONLY);
  int length = snprintf(map, sizeof map, "0 %u 1", user);
  say("map %s", write(file, map, length) == length ? "ok" : errname(errno));
  say("user %d", geteuid());
  say("then %s", result(setuid(0)));
  say("threads see %d", (int)(intptr_t)finish(start((void *(*)(void *))getuid, NULL)));
  say("other user %s", result(setuid(7)));
}
CASE(users) { in_child("child", users); }

static void *first_one(void *unused) {
  (void)unused;
  return (void *)(intptr_t)(getpid() == 1);
}
static void back_again(void) {
  int old = open("/proc/self/ns/uts", O_RDONLY), self = syscall(SYS_pidfd_open, getppid(), 0);
  ino_t before = space("self", "uts");
  need(old >= 0 && self >= 0);
  say("wrong kind %s", result(setns(old, CLONE_NEWNET)));
  say("no file of one %s", result(setns(self, 0)));
  say("no such descriptor %s", result(setns(999, 0)));
  if (geteuid() != 0) {
    say("not allowed %s", result(setns(old, 0)));
    return;
  }
  for (int i = 0; i < 3; i++) {
    need(unshare(CLONE_NEWUTS) == 0);
    say("another %d", space("self", "uts") != before);
    say("back %s", result(i == 0 ? setns(old, 0) : i == 1 ? setns(old, CLONE_NEWUTS) : setns(self, CLONE_NEWUTS | CLONE_NEWIPC)));
    say("the first again %d", space("self", "uts") == before);
  }
  need(unshare(CLONE_NEWUTS) == 0);
  say("and a thread %d", (int)(intptr_t)finish(start(first_one, NULL)));
}
CASE(back) { in_child("child", back_again); }
