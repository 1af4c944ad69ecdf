/* System calls with arguments that are right, wrong or at the edge; told is the error, or the result where that is the same
 * everywhere. */
#include "core.h"
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/prctl.h>

/* Since Linux 6.7; older headers lack them. */
#ifndef SYS_futex_wake
#define SYS_futex_wake 454
#define SYS_futex_wait 455
#endif

/* Kinds of arguments, each with values of its own. */
enum { END, TID, PID, SIG, PTR, FD, CLOCK, SMALL, SIZE, POLICY, WHICH, RESOURCE, ZERO, TIME, SIGSET_SIZE, FUTEX_OP, WORD, PRCTL, FLAGS, PIDFD, IO_PRIORITY };

static struct call {
    int nr;
    const char *name;
    int tells; /* 0: whether it failed; 1: the result itself. */
    unsigned char kinds[6];
} calls[] = {
#define CALL(NAME, TELLS, ...) {SYS_##NAME, #NAME, TELLS, {__VA_ARGS__}}
    CALL(sched_getparam, 1, TID, PTR),
    CALL(sched_getscheduler, 1, TID),
    CALL(sched_setscheduler, 1, TID, POLICY, PTR),
    CALL(sched_setparam, 1, TID, PTR),
    CALL(sched_get_priority_max, 1, POLICY),
    CALL(sched_get_priority_min, 1, POLICY),
    CALL(sched_rr_get_interval, 1, TID, PTR),
    CALL(sched_getattr, 1, TID, PTR, SIZE, SMALL),
    CALL(sched_setattr, 1, TID, PTR, SMALL),
    CALL(sched_getaffinity, 0, TID, SIZE, PTR),
    CALL(getpriority, 1, WHICH, TID),
    CALL(ioprio_get, 1, WHICH, TID),
    CALL(ioprio_set, 1, WHICH, TID, IO_PRIORITY),
    CALL(prlimit64, 1, TID, RESOURCE, ZERO, PTR),
    CALL(getpgid, 0, TID),
    CALL(getsid, 0, TID),
    CALL(get_robust_list, 1, TID, PTR, PTR),
    CALL(set_robust_list, 1, ZERO, SIZE),
    CALL(kill, 1, TID, ZERO),
    CALL(tkill, 1, TID, ZERO),
    CALL(tgkill, 1, PID, TID, ZERO),
    CALL(tkill, 1, PID, ZERO),
    CALL(rt_sigqueueinfo, 1, TID, ZERO, PTR),
    CALL(rt_tgsigqueueinfo, 1, PID, TID, ZERO, PTR),
    CALL(pidfd_open, 0, TID, FLAGS),
    CALL(kcmp, 1, TID, PID, SMALL, ZERO, ZERO),
    CALL(process_vm_readv, 1, TID, PTR, SMALL, PTR, SMALL, ZERO),
    CALL(move_pages, 1, TID, ZERO, ZERO, ZERO, ZERO, ZERO),
    CALL(rt_sigaction, 1, SIG, ZERO, PTR, SIGSET_SIZE),
    CALL(rt_sigprocmask, 1, SMALL, ZERO, PTR, SIGSET_SIZE),
    CALL(rt_sigpending, 1, PTR, SIGSET_SIZE),
    CALL(rt_sigtimedwait, 1, PTR, PTR, TIME, SIGSET_SIZE),
    CALL(sigaltstack, 1, ZERO, PTR),
    CALL(timer_create, 1, CLOCK, PTR, ZERO),
    CALL(timer_gettime, 1, SMALL, PTR),
    CALL(timer_settime, 1, SMALL, SMALL, PTR, PTR),
    CALL(timer_getoverrun, 1, SIZE),
    CALL(clock_getres, 1, CLOCK, PTR),
    CALL(clock_gettime, 1, CLOCK, PTR),
    CALL(clock_nanosleep, 1, CLOCK, SMALL, TIME, PTR),
    CALL(nanosleep, 1, TIME, PTR),
    CALL(getitimer, 1, SMALL, PTR),
    CALL(setitimer, 1, SIZE, PTR, PTR),
    CALL(futex, 1, WORD, FUTEX_OP, SMALL, TIME, WORD, SMALL),
    CALL(futex, 1, WORD, FUTEX_OP, WORD, TIME, PTR, SMALL),
    CALL(futex_waitv, 1, PTR, SMALL, FLAGS, TIME, CLOCK),
    CALL(membarrier, 1, FLAGS, SMALL, SMALL),
    CALL(set_tid_address, 0, ZERO),
    CALL(times, 0, PTR),
    CALL(getrusage, 1, SMALL, PTR),
    CALL(sched_yield, 1, ZERO),
    CALL(signalfd4, 0, FD, PTR, SIGSET_SIZE, FLAGS),
    CALL(timerfd_create, 0, CLOCK, FLAGS),
    CALL(timerfd_settime, 1, FD, SMALL, PTR, PTR),
    CALL(eventfd2, 0, SMALL, FLAGS),
    CALL(epoll_create1, 0, FLAGS),
    CALL(epoll_wait, 1, FD, PTR, SMALL, ZERO),
    CALL(epoll_pwait, 1, FD, PTR, SMALL, ZERO, PTR, SIGSET_SIZE),
    CALL(epoll_ctl, 1, FD, SMALL, FD, PTR),
    CALL(poll, 0, PTR, SIZE, ZERO),
    CALL(ppoll, 0, ZERO, ZERO, TIME, PTR, SIGSET_SIZE),
    CALL(select, 0, ZERO, ZERO, ZERO, ZERO, TIME),
    CALL(pselect6, 1, SMALL, PTR, ZERO, ZERO, TIME, PTR),
    CALL(wait4, 1, SIG, PTR, FLAGS, PTR),
    CALL(waitid, 1, SMALL, TID, PTR, FLAGS, PTR),
    CALL(pidfd_send_signal, 1, FD, ZERO, ZERO, FLAGS),
    CALL(pidfd_getfd, 1, FD, FD, FLAGS),
    CALL(prctl, 1, PRCTL, SMALL, ZERO, ZERO, ZERO),
    CALL(prctl, 1, PRCTL, PTR, ZERO, ZERO, ZERO),
    CALL(arch_prctl, 1, FLAGS, PTR),
    CALL(getcpu, 1, PTR, PTR, ZERO),
    CALL(rseq, 1, PTR, SIZE, FLAGS, SMALL),
    CALL(clone3, 1, PTR, SIZE),
    CALL(execve, 1, PTR, PTR, PTR),
    CALL(accept4, 1, FD, ZERO, ZERO, FLAGS),
    CALL(connect, 1, FD, PTR, SIZE),
    CALL(recvmmsg, 1, FD, PTR, SMALL, FLAGS, TIME),
    CALL(semtimedop, 1, SIZE, PTR, SMALL, TIME),
    CALL(msgrcv, 1, SIZE, PTR, SIZE, ZERO, FLAGS),
    CALL(mq_timedreceive, 1, FD, PTR, SIZE, ZERO, TIME),
    CALL(io_uring_enter, 1, FD, SMALL, SMALL, FLAGS, ZERO, ZERO),
    CALL(mprotect, 1, ZERO, SIZE, SMALL),
    CALL(mincore, 1, ZERO, SIZE, PTR),
    CALL(mlock, 1, ZERO, SMALL),
    CALL(ptrace, 1, SIZE, TID, ZERO, ZERO),
    CALL(capget, 1, PTR, PTR),
    CALL(getgroups, 1, SMALL, PTR),
    CALL(close_range, 1, SIZE, SMALL, FLAGS),
    CALL(futex_wake, 1, WORD, SMALL, SMALL, FLAGS),
    CALL(futex_wait, 1, WORD, SMALL, SMALL, FLAGS, TIME, CLOCK),
    CALL(process_mrelease, 1, FD, FLAGS),
    CALL(process_madvise, 1, FD, PTR, SMALL, SMALL, FLAGS),
    CALL(landlock_create_ruleset, 1, ZERO, ZERO, FLAGS),
    CALL(getcwd, 0, PTR, SIZE),
    CALL(restart_syscall, 1, ZERO),
    CALL(perf_event_open, 0, PTR, TID, ZERO, FD, FLAGS),
};

static char *area;
static _Atomic uint32_t words[8] __attribute__((aligned(64)));

static long value(int kind, long i) {
    static const int policies[] = {0, 1, 2, 3, 5, 6, 7, 0x40000000, -1, 99};
    static const long small[] = {0, 1, 2, 3, -1, 4, 8, 1000000};
    static const long sizes[] = {0, 1, 8, 48, 128, 4096, -1, 7};
    static const long flags[] = {0, 1, 2, 4, 0x80, 0x800, 0x80000, -1};
    static const clockid_t clocks[] = {0, 1, 2, 3, 4, 7, 11, 99, -1, -6, 5, 8};
    static struct timespec zero = {0, 0}, bad = {0, 2000000000}, negative = {-1, 0}, shortly = {0, 1000};
    static const int resources[] = {0, 3, 6, 7, 11, 13, 15, 16, 99, -1};
    static const int options[] = {2, 3, 7, 8, 14, 15, 16, 21, 23, 25, 26, 27, 28, 29, 30, 33, 34, 36, 37, 38, 39, 40, 42, 45, 46, 52, 53, 55, 56, 66, 67, 68, 70, 72, 74, 76, 9999, 1};
    static const int operations[] = {0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 2, 255, 1 | 256, 0 | 256, 9 | 256};
    static const int io_priorities[] = {2 << 13 | 3, 3 << 13, 0, 1 << 13 | 4, 2 << 13 | 9, 4 << 13, 5, -1};
    switch (kind) {
    case TID: {
        const long ids[] = {0, gettid(), leader, -1, 999999, 0x7fffffff, workers[1].state != ABSENT ? workers[1].tid : 0, -999999};
        return ids[i % 8];
    }
    case PID: return ((long[]){leader, 0, -1, 999999, leader, 1})[i % 6];
    case SIG: return ((long[]){0, 1, 10, 64, 65, -1, 32, 33, 9, 19})[i % 10];
    case PTR: {
        const long pointers[] = {(long)area, 0, 8, (long)area + 4096, (long)area + 4090, -8, (long)area + 1, (long)area + 2048};
        return pointers[i % 8];
    }
    case FD: return ((long[]){-1, 999, 0, 1, 100000})[i % 5];
    case CLOCK: return PICK(clocks, i);
    case SMALL: return PICK(small, i);
    case SIZE: return PICK(sizes, i);
    case POLICY: return PICK(policies, i);
    case WHICH: return ((long[]){0, 1, 2, 3, -1})[i % 5];
    case RESOURCE: return PICK(resources, i);
    case TIME: return ((long[]){(long)&zero, (long)&bad, (long)&negative, 8, (long)&shortly})[i % 5];
    case SIGSET_SIZE: return ((long[]){8, 8, 8, 0, 16, -1})[i % 6];
    case FUTEX_OP: return PICK(operations, i) | (i & 32 ? 128 : 0);
    case WORD: return ((long[]){(long)&words[0], 0, (long)&words[0] + 1, 8, (long)area + 4096, (long)&words[1]})[i % 6];
    case PRCTL: return PICK(options, i);
    case FLAGS: return PICK(flags, i);
    case IO_PRIORITY: return PICK(io_priorities, i);
    }
    return 0;
}

/* Some arguments would wait, stop or change more than one wants. */
static bool excluded(const struct call *call, const long *v) {
    switch (call->nr) {
    case SYS_prctl:
        /* What may read the counter is in CAVEATS. */
        return (v[0] == PR_SET_TSC && v[1] == PR_TSC_SIGSEGV) || (v[0] == PR_SET_NAME && v[1] == 0) || v[0] == 38 || v[0] == PR_SET_PDEATHSIG || v[0] == 23 + 1 || v[0] == 36 || v[0] == 8 || v[0] == 21 || v[0] == 52;
    case SYS_kill: return v[0] < 0 || v[0] == 0;
    case SYS_ptrace: return v[0] == 0;
    case SYS_setitimer: return v[0] == 0 || v[0] == 1 || v[0] == 2;
    case SYS_sched_setscheduler: case SYS_sched_setparam: case SYS_sched_setattr: return v[0] == 1;
    case SYS_close_range: return true;
    /* What is too many nanoseconds is some seconds to this one. */
    case SYS_select: return v[4] != 0 && v[4] != 8 && ((struct timespec *)v[4])->tv_nsec > 1000;
    case SYS_futex: return v[3] == 0;
    case SYS_wait4: return !(v[2] & 1);
    case SYS_waitid: return !(v[3] & 1);
    case SYS_clone3: return v[0] == (long)area && v[1] >= 48;
    case SYS_execve: return v[0] == (long)area;
    case SYS_getpriority: return v[0] == 2 || v[0] == 1;
    /* Of a group or a user, which other processes belong to. */
    case SYS_ioprio_get: case SYS_ioprio_set: return v[0] == 2 || v[0] == 3;
    case SYS_rt_sigprocmask: return false;
    case SYS_rt_sigtimedwait: return false;
    case SYS_mprotect: case SYS_mlock: return v[1] != 0;
    case SYS_epoll_wait: return false;
    case SYS_msgrcv: return v[0] == 0;
    case SYS_restart_syscall: return false;
    case SYS_membarrier: return false;
    case SYS_rseq: return v[0] != 0 && v[0] != 8;
    case SYS_set_tid_address: return true;
    case SYS_set_robust_list: return v[1] == 24;
    }
    return false;
}

/* The slice of a fair thread goes by the number of CPUs: the runtime of `struct sched_attr`, after six smaller words. */
static void forget_slice(void) {
    uint32_t policy;
    memcpy(&policy, area + 4, sizeof policy);
    if (policy == SCHED_OTHER || policy == SCHED_BATCH || policy == SCHED_IDLE) memset(area + 24, 0, 8);
}

OP(call, 110, NO_VFORK, COUNT(calls), 60, 60, 60, 60, 60) {
    const struct call *call = &calls[a[0]];
    if (!area) {
        area = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(area + 4096, 4096, PROT_NONE);
    }
    memset(area, 0, 4096);
    for (int i = 0; i < 8; i++) words[i] = 0;
    long v[6];
    for (int i = 0; i < 6; i++) v[i] = value(call->kinds[i], i < 5 ? a[1 + i] : 0);
    /* A pointer as a number: whether it is negative must not depend on where the program lies. */
    if (call->nr == SYS_futex) v[2] &= 0x7fffffff;
    bool counts = call->nr == SYS_futex && ((v[1] & 127) == 3 || (v[1] & 127) == 4 || (v[1] & 127) == 5 || (v[1] & 127) == 12);
    if (counts && v[3]) v[3] = 1000;
    /* PIDFD_THREAD of an own thread is in CAVEATS. */
    if (call->nr == SYS_pidfd_open) v[1] &= ~O_EXCL;
    say(" %s", call->name);
    if (excluded(call, v)) return say(" skipped");
    /* By which error is in CAVEATS. */
    bool other = v[0] != leader && (v[0] == gettid() || (workers[1].state != ABSENT && v[0] == workers[1].tid));
    long r = syscall(call->nr, v[0], v[1], v[2], v[3], v[4], v[5]);
    if (call->tells) say(" %s", outcome(r));
    else if (call->nr == SYS_pidfd_open && r < 0 && other) say(" refused");
    else say(" %s", r >= 0 ? "+" : error_name(errno));
    bool descriptor = call->nr == SYS_signalfd4 || call->nr == SYS_timerfd_create || call->nr == SYS_eventfd2 || call->nr == SYS_epoll_create1 ||
                      call->nr == SYS_pidfd_open || call->nr == SYS_perf_event_open;
    if (descriptor && r > 2) close(r);
    bool written = call->nr == SYS_rt_sigpending || call->nr == SYS_rt_sigprocmask || call->nr == SYS_sched_getparam ||
                   call->nr == SYS_sched_getattr || call->nr == SYS_prlimit64 || call->nr == SYS_getitimer;
    if (call->nr == SYS_sched_getattr && r >= 0) forget_slice();
    if (written && r >= 0) {
        unsigned long sum = 0;
        for (int i = 0; i < 256; i++) sum = sum * 31 + (unsigned char)area[i];
        say(" wrote %lx", sum);
    }
}
