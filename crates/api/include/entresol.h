/* What a program may ask of Entresol beyond Linux: private system calls, by syscall(2). Outside Entresol
 * they answer ENOSYS. docs/CHECKPOINT.md says what they are for; a change here is a new ENTRESOL_VERSION. */
#ifndef ENTRESOL_H
#define ENTRESOL_H

#include <stdint.h>

#define ENTRESOL_VERSION 1
/* The most records that one call handles. */
#define ENTRESOL_RECORDS_MAX 64

/* (struct entresol_timer *, count, uint64_t *cursor, flags): copies up to count timers from *cursor on, which begins
 * at 0 and ends as ENTRESOL_END. Returns how many; it may be 0 before the end. */
#define ENTRESOL_TIMERS_COPY 0x0e570010
/* (const struct entresol_timer *, count): makes timers with these ids, disarmed. Returns how many; the error of the
 * first only if that is none. */
#define ENTRESOL_TIMERS_MAKE 0x0e570011
/* (const struct entresol_timer *, count): they go on where they were. */
#define ENTRESOL_TIMERS_START 0x0e570012
/* (id): the next timer's. */
#define ENTRESOL_TIMERS_NEXT_ID 0x0e570013
/* (struct entresol_process *): returns ENTRESOL_VERSION. */
#define ENTRESOL_PROCESS_TIME 0x0e570014

/* To ENTRESOL_TIMERS_COPY: delete them by the same act. */
#define ENTRESOL_TAKE 1
#define ENTRESOL_END UINT64_MAX

/* Flags of a timer: it runs; its signal was on its way; set with TIMER_ABSTIME. */
#define ENTRESOL_RUNS 1
#define ENTRESOL_PENDING 2
#define ENTRESOL_ABSOLUTE 4

#define ENTRESOL_TIMER_RECORD_SIZE 88
struct entresol_timer {
  int32_t id, clock, notify, signo, tid;
  uint32_t flags;
  uint64_t value, interval, expires, now; /* nanoseconds, but for the value */
  int64_t overrun, overrun_last;
  uint64_t created;
  int32_t clock_tid, reserved;
};

#define ENTRESOL_PROCESS_RECORD_SIZE 160
struct entresol_process {
  int32_t pid;
  uint32_t next_id;
  uint64_t restoring;
  uint64_t monotonic, realtime, boottime, tai;
  uint64_t cpu, user, system;
  uint64_t itimers[3][2]; /* ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF: what is left, and the period */
  uint64_t limits[2][2];  /* RLIMIT_CPU, RLIMIT_RTTIME: soft, hard */
  uint64_t sigpending;
};

#ifdef __cplusplus
static_assert(sizeof(struct entresol_timer) == ENTRESOL_TIMER_RECORD_SIZE, "");
static_assert(sizeof(struct entresol_process) == ENTRESOL_PROCESS_RECORD_SIZE, "");
#else
_Static_assert(sizeof(struct entresol_timer) == ENTRESOL_TIMER_RECORD_SIZE, "");
_Static_assert(sizeof(struct entresol_process) == ENTRESOL_PROCESS_RECORD_SIZE, "");
#endif

#endif
