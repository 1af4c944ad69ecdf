/* A process with one thread submits to an io_uring and waits for what it has submitted, in one call. */
#include "../check.h"
#include <linux/io_uring.h>
#include <linux/time_types.h>
#include <sys/time.h>

enum { ENTRIES = 8, ROUNDS = 20 };

static int ring;
static char *submissions, *completions;
static struct io_uring_sqe *entries;
static struct io_uring_params parameters;

static bool set_up(void) {
  ring = syscall(SYS_io_uring_setup, ENTRIES, &parameters);
  if (ring < 0) return say("no io_uring"), false;
  size_t length = parameters.sq_off.array + parameters.sq_entries * sizeof(uint32_t);
  size_t answers = parameters.cq_off.cqes + parameters.cq_entries * sizeof(struct io_uring_cqe);
  int prot = PROT_READ | PROT_WRITE;
  submissions = mmap(NULL, length, prot, MAP_SHARED, ring, IORING_OFF_SQ_RING);
  completions = mmap(NULL, answers, prot, MAP_SHARED, ring, IORING_OFF_CQ_RING);
  entries = mmap(NULL, ENTRIES * sizeof *entries, prot, MAP_SHARED, ring, IORING_OFF_SQES);
  need(submissions != MAP_FAILED && completions != MAP_FAILED && entries != MAP_FAILED);
  return true;
}

static atomic_uint *word(char *area, uint32_t offset) { return (atomic_uint *)(area + offset); }

static void submit(struct io_uring_sqe entry) {
  atomic_uint *tail = word(submissions, parameters.sq_off.tail);
  uint32_t slot = *tail & (ENTRIES - 1);
  entries[slot] = entry;
  *word(submissions, parameters.sq_off.array + slot * sizeof slot) = slot;
  *tail += 1;
}

/* A timeout that is over after this time. */
static void submit_timeout(struct __kernel_timespec *time) {
  submit((struct io_uring_sqe){.opcode = IORING_OP_TIMEOUT, .fd = -1, .addr = (uintptr_t)time, .len = 1});
}

static unsigned completed(void) {
  atomic_uint *head = word(completions, parameters.cq_off.head);
  unsigned count = *word(completions, parameters.cq_off.tail) - *head;
  *head += count;
  return count;
}

static long enter(unsigned submitted, unsigned wanted) {
  return syscall(SYS_io_uring_enter, ring, submitted, wanted, IORING_ENTER_GETEVENTS, NULL, 0);
}

/* Longer than the time after which a young process is looked at, and than a slice. */
CASE(submits_and_waits) {
  if (!set_up()) return;
  struct __kernel_timespec time = {.tv_nsec = 12000000};
  int short_of = 0;
  for (int i = 0; i < ROUNDS; i++) {
    submit_timeout(&time);
    submit((struct io_uring_sqe){.opcode = IORING_OP_NOP});
    need(enter(2, 2) == 2);
    unsigned found = completed();
    short_of += found < 2;
    if (found < 2) need(enter(0, 2 - found) == 0 && completed() == 2 - found);
  }
  say("returned too early %d times", short_of);
}

static void nothing(int signo) { (void)signo; }

/* A handler ends the wait, which then says what was submitted. */
CASE(ended_by_a_handler) {
  if (!set_up()) return;
  need(sigaction(SIGALRM, &(struct sigaction){.sa_handler = nothing}, NULL) == 0);
  struct __kernel_timespec hour = {.tv_sec = 3600};
  submit_timeout(&hour);
  struct itimerval soon = {{0, 20000}, {0, 20000}}, never = {0};
  need(setitimer(ITIMER_REAL, &soon, NULL) == 0);
  say("%s", result(enter(1, 1)));
  say("%s", result(enter(0, 1)));
  need(setitimer(ITIMER_REAL, &never, NULL) == 0);
  say("%u completed", completed());
}
