/* What the host keeps for the host thread that asks: counters, rings, and settings of a thread. */
#include "../check.h"
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1U << 12)
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif

/* Threads that keep every CPU busy, so that one that waits comes back elsewhere. */
static atomic_bool stop;
static void *compute(void *unused) {
  while (!stop) {}
  return unused;
}
static pthread_t others[3];
static void load_begins(void) {
  stop = false;
  for (int i = 0; i < COUNT(others); i++) others[i] = start(compute, NULL);
}
static void load_ends(void) {
  stop = true;
  for (int i = 0; i < COUNT(others); i++) finish(others[i]);
}

static int64_t count_of(int fd) {
  int64_t count;
  need(read(fd, &count, sizeof count) == sizeof count);
  return count;
}

/* A counter of the calling thread counts what that consumes, and nothing while it sleeps and others compute. */
static void *counted(void *unused) {
  struct perf_event_attr attr = {
      .type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .config = PERF_COUNT_SW_TASK_CLOCK, .exclude_kernel = 1};
  int fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
  say("counter %s", fd >= 0 ? "ok" : errname(errno));
  if (fd < 0) return unused;
  int64_t asleep = 0;
  for (int i = 0; i < 5; i++) {
    int64_t before = count_of(fd);
    sleep_ms(20);
    int64_t after = count_of(fd);
    asleep += after - before;
    for (volatile int k = 0; k < 1000000; k++) {}
    must(count_of(fd) > after);
  }
  must(asleep < 20000000);
  close(fd);
  return unused;
}
CASE(counters) {
  load_begins();
  finish(start(counted, NULL));
  load_ends();
}

/* An event that no host has, and one with a flag that none knows: of itself, of another thread, of none. */
static void *refused(void *unused) {
  struct perf_event_attr none = {.type = 0x7ffffff0, .size = sizeof none};
  struct perf_event_attr clock = {.type = PERF_TYPE_SOFTWARE, .size = sizeof clock, .config = PERF_COUNT_SW_TASK_CLOCK};
  pid_t ids[] = {0, getpid(), 0x3fffffff};
  for (int i = 0; i < COUNT(ids); i++) {
    must(syscall(SYS_perf_event_open, &none, ids[i], -1, -1, 0) == -1);
    say("no such event: %s", errname(errno));
    must(syscall(SYS_perf_event_open, &clock, ids[i], -1, 12345, 0) == -1);
    say("no such group: %s", errname(errno));
    must(syscall(SYS_perf_event_open, &clock, ids[i], -1, -1, 1UL << 20) == -1);
    say("no such flag: %s", errname(errno));
  }
  return unused;
}
CASE(refused_counters) {
  finish(start(refused, NULL));
}

static void *alone_with_ring(void *unused) {
  struct io_uring_params params = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN};
  int fd = syscall(SYS_io_uring_setup, 8, &params), ends[2];
  say("ring %s", fd >= 0 ? "ok" : errname(errno));
  if (fd < 0) return unused;
  need(pipe(ends) == 0);
  int failed = 0;
  for (int i = 0; i < 50; i++) {
    usleep(300);
    pid_t child = fork();
    if (child == 0) {
      usleep(300);
      need(write(ends[1], "x", 1) == 1);
      _exit(0);
    }
    char byte;
    need(read(ends[0], &byte, 1) == 1);
    failed += syscall(SYS_io_uring_enter, fd, 0, 0, IORING_ENTER_GETEVENTS, NULL, 0) != 0;
    waitpid(child, NULL, 0);
  }
  say("refused %d times", failed);
  close(fd), close(ends[0]), close(ends[1]);
  return unused;
}
CASE(rings) {
  load_begins();
  finish(start(alone_with_ring, NULL));
  load_ends();
}

/* What becomes of it when its memory is broken: each thread's own, and a new one's from its maker. */
enum { GET = 34, SET = 33 };
static long policy(void) { return prctl(GET, 0, 0, 0, 0); }
static atomic_int stage;
static void *sees(void *unused) {
  say("new %s", result(policy()));
  stage = 1;
  wait_until(stage == 2);
  for (int i = 0; i < 20; i++) {
    must(policy() == PR_MCE_KILL_EARLY);
    sleep_ms(1);
  }
  say("kept %s", result(policy()));
  return unused;
}
static void machine_checks(void) {
  say("set %s", result(prctl(SET, PR_MCE_KILL_SET, PR_MCE_KILL_EARLY, 0, 0)));
  load_begins();
  pthread_t thread = start(sees, NULL);
  wait_until(stage == 1);
  say("other %s", result(prctl(SET, PR_MCE_KILL_SET, PR_MCE_KILL_LATE, 0, 0)));
  stage = 2;
  for (int i = 0; i < 20; i++) {
    must(policy() == PR_MCE_KILL_LATE);
    sleep_ms(1);
  }
  finish(thread);
  load_ends();
  say("in the end %s", result(policy()));
}
CASE(machine_check_policy) { in_child("child", machine_checks); }

/* What is guessed for one thread is not for another. */
static void *guesses(void *unused) {
  say("other %d", prctl(PR_GET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, 0, 0, 0));
  return unused;
}
static void speculation(void) {
  say("before %d", prctl(PR_GET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, 0, 0, 0));
  pthread_t thread = start(guesses, NULL);
  finish(thread);
  say("set %s", result(prctl(PR_SET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, PR_SPEC_DISABLE, 0, 0)));
  load_begins();
  for (int i = 0; i < 10; i++) {
    sleep_ms(1);
    say("then %d", prctl(PR_GET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, 0, 0, 0));
  }
  load_ends();
  finish(start(guesses, NULL));
}
CASE(speculation_control) { in_child("child", speculation); }

CASE(counter_of_the_processor) {
  int mode = 0;
  say("enabled %s", result(prctl(PR_SET_TSC, PR_TSC_ENABLE)));
  const char *answer = result(prctl(PR_GET_TSC, &mode));
  say("get %s, is %d", answer, mode >= 0);
  say("nonsense %s", result(prctl(PR_SET_TSC, 7)));
}

/* That there is no such thread is found out last. */
static void *tries_counters(void *main_thread) {
  static char page[4096] __attribute__((aligned(4096)));
  struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .config = PERF_COUNT_SW_TASK_CLOCK};
  pid_t other = (pid_t)(intptr_t)main_thread;
  say("no attributes %s", result(syscall(SYS_perf_event_open, (void *)8, other, -1, -1, 0)));
  say("another size %s", result(syscall(SYS_perf_event_open, page, other, -1, -1, -1UL)));
  say("no group %s", result(syscall(SYS_perf_event_open, &attr, other, -1, 999, 0)));
  return NULL;
}
CASE(counters_of_another) {
  finish(start(tries_counters, (void *)(intptr_t)getpid()));
}

/* Descriptors tell the process, on whichever host thread its main thread asks; they are another thread's business or nobody's. */
static atomic_int told;
static void count_it(int signal) { told += signal > 0; }
CASE(who_is_told_of_a_directory) {
  struct sigaction action = {.sa_handler = count_it};
  need(sigaction(SIGIO, &action, NULL) == 0);
  char folder[] = "told-XXXXXX", one[32], other[32];
  need(mkdtemp(folder));
  snprintf(one, sizeof one, "%s/a", folder), snprintf(other, sizeof other, "%s/b", folder);
  close(open(one, O_CREAT | O_RDWR, 0600));
  load_begins();
  int owned = 0, asked = 0, heard = 0;
  for (int i = 0; i < 30; i++) {
    int fd = open(folder, O_RDONLY), before = told;
    sleep_ms(1);
    asked += fcntl(fd, F_NOTIFY, DN_RENAME) == 0;
    owned += fcntl(fd, F_GETOWN) == getpid();
    need(rename(i % 2 ? other : one, i % 2 ? one : other) == 0);
    for (int64_t limit = now_ns(CLOCK_MONOTONIC) + 2000000000; told == before && now_ns(CLOCK_MONOTONIC) < limit;) sleep_ms(1);
    heard += told > before;
    close(fd);
    if (!heard) break;
  }
  load_ends();
  int file = open("/dev/null", O_RDONLY);
  say("asked %d, owned %d, heard %d", asked, owned, heard);
  say("not of a file: %s, owner %d", result(fcntl(file, F_NOTIFY, DN_RENAME)), fcntl(file, F_GETOWN));
  close(file), unlink(one), unlink(other), rmdir(folder);
}
