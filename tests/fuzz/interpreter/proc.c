/* Ids, scheduling, rights, and what /proc says of them. */
#include "core.h"
#include <dirent.h>
#include <linux/perf_event.h>
#include <linux/kcmp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

static int threads(void) {
    int n = 0;
    for (int i = 0; i < WORKERS; i++) n += workers[i].state != ABSENT;
    return n;
}

static const char *names[] = {"/proc/self/task", "/proc/./self/task", "//proc/self/task", "/proc//self/task", "/proc/thread-self/../", "/proc/self/../self/task", "/proc/self/cwd/task"};

/* As many threads as there are, by whatever name. */
OP(task_dir, 14, NO_VFORK, 7, 6) {
    const char *name = names[a[0]];
    int base = -1, at = AT_FDCWD, fd;
    struct stat status;
    char relative[64] = "self/task";
    if (a[0] == 6) return say(" skipped");
    if (a[1] == 1 || a[1] == 2) base = at = open("/proc", O_RDONLY | (a[1] == 2 ? O_PATH : 0)), name = relative;
    if (a[1] == 3) base = at = open("/proc/self", O_RDONLY), name = "task";
    if (a[1] == 4) base = at = open("/proc/self/task", O_RDONLY), name = "../task";
    if (a[1] == 5) base = at = open("/proc/self/task", O_RDONLY), name = ".";
    int r = fstatat(at, name, &status, 0);
    say(" %s", outcome(r));
    if (r == 0) say(" links %ld", (long)status.st_nlink - 2);
    struct statx extended;
    r = statx(at, name, 0, STATX_ALL, &extended);
    if (r == 0) say(" statx %ld", (long)extended.stx_nlink - 2);
    fd = openat(at, name, O_RDONLY | O_DIRECTORY);
    if (fd >= 0) {
        if (fstat(fd, &status) == 0) say(" fstat %ld", (long)status.st_nlink - 2);
        DIR *dir = fdopendir(fd);
        int entries = 0, mine = 0;
        for (struct dirent *e; (e = readdir(dir));) {
            entries += e->d_name[0] != '.';
            for (int i = 0; i < WORKERS; i++) mine += workers[i].state != ABSENT && atoi(e->d_name) == workers[i].tid;
        }
        say(" entries %d known %d of %d", entries, mine, threads());
        closedir(dir);
    }
    if (base >= 0) close(base);
}

OP(proc_file, 12, NO_VFORK, 12, 4) {
    static const char *files[] = {"comm", "status", "stat", "cmdline", "wchan", "schedstat", "limits", "cgroup", "oom_score_adj", "timerslack_ns", "nosuch", "children"};
    char path[128];
    struct worker *w = &workers[self];
    if (a[1] == 0) snprintf(path, sizeof path, "/proc/self/%s", files[a[0]]);
    if (a[1] == 1) snprintf(path, sizeof path, "/proc/thread-self/%s", files[a[0]]);
    if (a[1] == 2) snprintf(path, sizeof path, "/proc/self/task/%d/%s", w->tid, files[a[0]]);
    if (a[1] == 3) snprintf(path, sizeof path, "/proc/%d/%s", w->tid, files[a[0]]);
    int fd = open(path, O_RDONLY);
    say(" %s/%s", (const char *[]){"self", "thread-self", "task", "tid"}[a[1]], files[a[0]]);
    if (fd < 0) return say(" %s", error_name(errno));
    static char text[8192];
    ssize_t n = read(fd, text, sizeof text - 1);
    say(" %s", n < 0 ? error_name(errno) : n ? "+" : "0");
    text[n > 0 ? n : 0] = 0;
    if (a[0] == 1) {
        /* Lines that depend on nothing but what the program did. */
        static const char *lines[] = {"Threads:", "SigPnd:", "ShdPnd:", "SigBlk:", "NoNewPrivs:", "Name:", "State:", "SigIgn:", "Seccomp:"};
        for (int i = 0; i < COUNT(lines); i++) {
            char *at = strstr(text, lines[i]);
            bool known = a[1] != 0 || self == 0 || strcmp(lines[i], "State:") != 0;
            if (at && known) say(" |%.*s", (int)strcspn(at, "\n"), at);
        }
    }
    if (a[0] == 0) say(" %.*s", (int)strcspn(text, "\n"), text);
    if (a[0] == 2) {
        char *end = strrchr(text, ')');
        int count = 0;
        if (end) for (char *at = end; *at; at++) count += *at == ' ';
        say(" fields %d state %c", count, end && (a[1] != 0 || self == 0) ? end[2] : '?');
    }
    if (a[0] == 9) say(" %.*s", (int)strcspn(text, "\n"), text);
    say(" again %d", lseek(fd, 0, SEEK_SET) == 0 ? read(fd, text, 1) == 1 : -1);
    close(fd);
}

OP(name, 6, NO_VFORK, 4, 2) {
    static const char *new_names[] = {"short", "a-name-that-is-far-too-long", "", "with space)"};
    char got[17] = {0};
    if (a[1]) {
        int fd = open("/proc/thread-self/comm", O_WRONLY);
        say(" %s", outcome(write(fd, new_names[a[0]], strlen(new_names[a[0]]))));
        close(fd);
    } else {
        say(" %s", outcome(prctl(PR_SET_NAME, new_names[a[0]])));
    }
    prctl(PR_GET_NAME, got);
    say(" %s", got);
}

/* Another thread's id, or one's own, where Linux takes a thread's. */
OP(ids, 16, NO_VFORK, WORKERS, 16) {
    struct worker *w = &workers[a[0]];
    if (w->state == ABSENT) return say(" skipped");
    pid_t tid = w->tid;
    struct rlimit limit;
    char byte = 7, got = 0;
    long r = -1;
    switch (a[1]) {
    case 0: r = prlimit(tid, RLIMIT_NOFILE, 0, &limit); say(" prlimit"); break;
    case 1: r = getpgid(tid) == getpgid(0) ? 0 : -1; say(" getpgid"); break;
    case 2: r = getsid(tid) == getsid(0) ? 0 : -1; say(" getsid"); break;
    case 3: r = syscall(SYS_kcmp, leader, tid, KCMP_FILES, 0, 0); say(" kcmp"); break;
    case 4: r = syscall(SYS_ioprio_get, 1, tid); say(" ioprio_get"); break;
    case 5: r = syscall(SYS_ioprio_set, 1, tid, 2 << 13 | 3); say(" ioprio_set %s", outcome(r)); r = syscall(SYS_ioprio_get, 1, tid); break;
    case 6: {
        struct iovec to = {&got, 1}, from = {&byte, 1};
        r = process_vm_readv(tid, &to, 1, &from, 1, 0);
        say(" process_vm_readv %d", got);
        break;
    }
    case 7: return say(" skipped"); /* PIDFD_THREAD of an own thread is in CAVEATS. */
    case 8: r = syscall(SYS_pidfd_open, tid, 0); say(" pidfd_open plain %s", r < 0 ? "refused" : "0"); if (r >= 0) close(r); return;
    case 9: r = kill(tid, 0); say(" kill"); break;
    case 10: r = syscall(SYS_move_pages, tid, 0, 0, 0, 0, 0); say(" move_pages"); break;
    case 11: { void *head; size_t size; r = syscall(SYS_get_robust_list, tid, &head, &size); say(" get_robust_list"); break; }
    case 12: r = getpriority(PRIO_PROCESS, tid); say(" getpriority"); break;
    case 13: r = setpriority(PRIO_PROCESS, tid, 5 + a[0]); say(" setpriority %s", outcome(r)); r = getpriority(PRIO_PROCESS, tid); break;
    case 14: {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(0, &set);
        r = sched_setaffinity(tid, sizeof set, &set);
        say(" setaffinity %s", outcome(r));
        r = sched_getaffinity(tid, sizeof set, &set);
        say(" %d", CPU_COUNT(&set));
        break;
    }
    case 15: { struct sched_param p = {0}; r = sched_setscheduler(tid, SCHED_BATCH, &p); say(" batch %s", outcome(r)); r = sched_getscheduler(tid); break; }
    }
    say(" %s", outcome(r));
}

/* Counts of the thread itself, whichever host thread it runs on. */
OP(perf, 3, NO_VFORK, 2) {
    struct perf_event_attr attributes = {.type = PERF_TYPE_SOFTWARE, .size = sizeof attributes, .config = PERF_COUNT_SW_TASK_CLOCK};
    int fd = syscall(SYS_perf_event_open, &attributes, a[0] ? gettid() : 0, -1, -1, 0);
    if (fd < 0) return say(" %s", error_name(errno));
    for (int i = 0; i < 20; i++) {
        for (volatile int k = 0; k < 10000; k++) {}
        sched_yield();
    }
    uint64_t count = 0;
    say(" %s counts %d", outcome(read(fd, &count, 8)), count > 10000);
    close(fd);
}

OP(nice, 5, NO_VFORK, 5, 2) {
    static const int values[] = {0, 1, 5, 19, 100};
    if (depth == 0 && self == 0) return say(" skipped");
    errno = 0;
    say(" %d", nice(values[a[0]]));
    say(" %d", getpriority(PRIO_PROCESS, 0));
}

/* Without rights, what is refused is refused. */
OP(drop_rights, 4, NO_VFORK, 8) {
    if (depth == 0 || getuid() != 0) return say(" skipped");
    say(" %s", outcome(syscall(SYS_setresuid, 1, 1, 1)));
    void *head;
    size_t size;
    struct rlimit limit = {5000000, 5000000};
    struct sched_param p = {0};
    errno = 0;
    switch (a[0]) {
    case 0: say(" nice %d %s", nice(-10), error_name(errno)); break;
    case 1: say(" setpriority %s", outcome(setpriority(PRIO_PROCESS, 0, -5))); break;
    case 2: say(" robust %s", outcome(syscall(SYS_get_robust_list, 1, &head, &size))); break;
    case 3: say(" kill %s", outcome(kill(1, 0))); break;
    case 4: say(" rlimit %s", outcome(setrlimit(RLIMIT_NOFILE, &limit))); break;
    case 5: say(" batch %s", outcome(sched_setscheduler(1, SCHED_BATCH, &p))); break;
    case 6: {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(0, &set);
        say(" affinity %s", outcome(sched_setaffinity(1, sizeof set, &set)));
        break;
    }
    case 7: say(" setuid %s", outcome(setuid(0))); break;
    }
}

/* A child changes its parent. */
OP(parent, 6, NO_VFORK, 4) {
    if (depth == 0) return say(" skipped");
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    switch (a[0]) {
    case 0: say(" affinity %s", outcome(sched_setaffinity(starter, sizeof set, &set))); break;
    case 1: say(" get affinity %s", outcome(sched_getaffinity(starter, sizeof set, &set) > 0)); break;
    case 2: say(" nice"); break; /* One that another process sets is in CAVEATS. */
    case 3: say(" policy %d", sched_getscheduler(starter)); break;
    }
}

OP(affinity, 5, NO_VFORK, 4) {
    cpu_set_t set;
    CPU_ZERO(&set);
    static const long masks[] = {1, 0, 1L << 60, 1};
    memcpy(&set, &masks[a[0]], 8);
    int r = sched_setaffinity(0, sizeof set, &set);
    say(" %s", outcome(r));
    if (r == 0) {
        sched_getaffinity(0, sizeof set, &set);
        say(" %d on %d", CPU_COUNT(&set), sched_getcpu());
    }
}

OP(policy, 8, NO_VFORK, 6, 4, 2) {
    static const int policies[] = {SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, SCHED_OTHER, SCHED_BATCH | SCHED_RESET_ON_FORK, 44};
    /* Entresol lets everybody take the flag away again, as Linux does root (`--rt`). */
    if (a[0] == 4 && getuid() != 0) return say(" skipped");
    struct sched_param p = {a[1] == 3 ? 5 : 0}, got = {0};
    say(" %s", outcome(sched_setscheduler(a[2] ? gettid() : 0, policies[a[0]], &p)));
    sched_getparam(0, &got);
    say(" %d %d", sched_getscheduler(0), got.sched_priority);
}

OP(credentials, 3, NO_VFORK, 3) {
    say(" keepcaps %s", outcome(prctl(PR_SET_KEEPCAPS, a[0])));
    say(" %d", prctl(PR_GET_KEEPCAPS));
}

OP(settings, 8, NO_VFORK, 6, 3) {
    static const int pairs[][2] = {{PR_SET_DUMPABLE, PR_GET_DUMPABLE}, {PR_SET_THP_DISABLE, PR_GET_THP_DISABLE}, {PR_SET_TIMING, PR_GET_TIMING},
                                   {PR_SET_SECUREBITS, PR_GET_SECUREBITS}, {PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS}, {PR_MCE_KILL, PR_MCE_KILL_GET}};
    if (depth == 0 && a[0] == 0) return say(" skipped");
    say(" %s", outcome(prctl(pairs[a[0]][0], a[1], a[1] ? 1 : 0, 0, 0)));
    say(" %s", outcome(prctl(pairs[a[0]][1], 0, 0, 0, 0)));
}
