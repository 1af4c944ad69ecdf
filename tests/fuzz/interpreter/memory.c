/* Mappings, stacks above all: what they hold, who may touch them, and what is left of the one before. */
#include "core.h"
#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>

enum { AREAS = 6, PAGE = 4096 };
static struct { char *at; long pages; bool grows; } areas[AREAS];

/* The first area from this one on that is there (or free), so that few operations find nothing to do; -1 if there is none. */
static int next_area(long from, bool is_there) {
    for (int i = 0; i < AREAS; i++)
        if ((areas[(from + i) % AREAS].at != 0) == is_there) return (from + i) % AREAS;
    return -1;
}

/* Reads without a fault, by way of the host: what a page allows and holds. */
static int look(char *at) {
    char byte;
    struct iovec here = {&byte, 1}, there = {at, 1};
    int ends[2], answer;
    if (pipe(ends)) return -9;
    answer = write(ends[1], at, 1) == 1 && read(ends[0], &byte, 1) == 1 ? (unsigned char)byte : -1;
    (void)here, (void)there;
    close(ends[0]);
    close(ends[1]);
    return answer;
}

static bool writable(char *at) {
    int ends[2];
    char byte = look(at);
    if (pipe(ends)) return false;
    bool good = write(ends[1], &byte, 1) == 1 && read(ends[0], at, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return good;
}

static void tell_area(int i) {
    for (long page = 0; page < areas[i].pages; page++) {
        char *at = areas[i].at + page * PAGE;
        int first = look(at), last = look(at + PAGE - 1);
        say(" %d/%d%s", first, last, first >= 0 && writable(at) ? "w" : "");
    }
}

OP(map, 20, NO_VFORK, AREAS, 4, 8, 4) {
    static const int flags[] = {0, MAP_STACK, MAP_STACK | MAP_NORESERVE, MAP_GROWSDOWN, MAP_POPULATE, MAP_STACK | MAP_POPULATE, MAP_NORESERVE, MAP_STACK};
    static const int rights[] = {PROT_READ | PROT_WRITE, PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};
    int free_one = next_area(a[0], false);
    if (free_one < 0) return say(" skipped");
    long pages = (long[]){1, 4, 8, 33}[a[1]];
    bool shared = a[2] == 0 && a[3] == 3;
    char *at = mmap(0, pages * PAGE, rights[a[3]], (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS | flags[a[2]], -1, 0);
    if (at == MAP_FAILED) return say(" %s", error_name(errno));
    areas[free_one].at = at, areas[free_one].pages = pages, areas[free_one].grows = flags[a[2]] == MAP_GROWSDOWN;
    say(" mapped");
    if (!areas[free_one].grows) tell_area(free_one);
}

static void fill_area(int i, int byte) {
    for (long page = 0; page < areas[i].pages; page++) {
        char *at = areas[i].at + page * PAGE;
        if (writable(at)) memset(at, byte, PAGE);
    }
}

OP(fill, 12, NO_VFORK, AREAS, 3) {
    int i = next_area(a[0], true);
    if (i < 0) return say(" skipped");
    fill_area(i, 17 + a[1]);
    tell_area(i);
}

/* Whether one of the areas grows into free space below it that is looked at. */
static bool any_grows(void) {
    for (int i = 0; i < AREAS; i++)
        if (areas[i].at && areas[i].grows) return true;
    return false;
}

OP(unmap, 14, NO_VFORK, AREAS, 3) {
    int i = next_area(a[0], true);
    if (i < 0) return say(" skipped");
    char *at = areas[i].at;
    long pages = areas[i].pages;
    if (a[1] == 0 || pages < 4) {
        say(" %s", outcome(munmap(at, pages * PAGE)));
        areas[i].at = 0;
        /* Something else may lie there, but not before anything is mapped. */
        if (!any_grows()) say(" left %d %d", look(at), look(at + (pages - 1) * PAGE));
    } else if (a[1] == 1) {
        /* A hole, which is told and then filled: what is mapped next would lie there or elsewhere. */
        say(" %s", outcome(munmap(at + PAGE, PAGE)));
        tell_area(i);
        mmap(at + PAGE, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    } else {
        say(" %s", outcome(munmap(at + (pages - 1) * PAGE, PAGE)));
        areas[i].pages--;
        tell_area(i);
    }
}

OP(protect, 12, NO_VFORK, AREAS, 4, 3) {
    static const int rights[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_EXEC};
    int i = next_area(a[0], true);
    if (i < 0) return say(" skipped");
    long pages = areas[i].pages;
    char *at = areas[i].at + (a[2] == 2 && pages > 1 ? PAGE : 0);
    say(" %s", outcome(mprotect(at, a[2] == 1 ? pages * PAGE : PAGE, rights[a[1]])));
    tell_area(i);
}

OP(advise, 12, NO_VFORK, AREAS, 13, 4) {
    static const int advice[] = {MADV_DONTNEED, MADV_DONTNEED, MADV_FREE, MADV_WIPEONFORK, MADV_KEEPONFORK, MADV_DONTFORK, MADV_DOFORK, MADV_POPULATE_WRITE,
                                 102 /* guard */, 103 /* unguard */, MADV_DONTDUMP, MADV_NOHUGEPAGE, 999};
    int i = next_area(a[0], true);
    /* When pages that are given free disappear is up to Linux. */
    if (i < 0 || advice[a[1]] == MADV_FREE) return say(" skipped");
    long pages = areas[i].pages;
    /* What advice takes away must have been there. */
    if (a[2] & 2) fill_area(i, 33);
    say(" %s", outcome(madvise(areas[i].at, a[2] & 1 ? pages * PAGE : PAGE, advice[a[1]])));
    tell_area(i);
}

/* Free space that is no hole of the area itself. */
static char *room_for(long bytes, int i) {
    char *room = mmap(0, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *other;
    if (room + bytes <= areas[i].at || room >= areas[i].at + areas[i].pages * PAGE) return room;
    other = room_for(bytes, i);
    munmap(room, bytes);
    return other;
}

OP(remap, 10, NO_VFORK, AREAS, 5, 2) {
    int i = next_area(a[0], true);
    if (i < 0) return say(" skipped");
    char *at = areas[i].at;
    long pages = areas[i].pages, wanted = (long[]){1, 2, pages, pages + 1, pages + 4}[a[1]];
    char *moved;
    if (a[2]) {
        char *room = room_for(wanted * PAGE, i);
        moved = mremap(at, pages * PAGE, wanted * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room);
        if (moved == MAP_FAILED) munmap(room, wanted * PAGE);
    } else {
        moved = mremap(at, pages * PAGE, wanted * PAGE, MREMAP_MAYMOVE);
    }
    if (moved == MAP_FAILED) return say(" %s", error_name(errno));
    if (moved != at && a[2] && !any_grows()) say(" old %d", look(at));
    areas[i].at = moved, areas[i].pages = wanted;
    tell_area(i);
}

/* Laid over what is there. */
OP(overlay, 6, NO_VFORK, AREAS, 3) {
    int i = next_area(a[0], true);
    if (i < 0) return say(" skipped");
    char *at = areas[i].at + (areas[i].pages > 2 ? PAGE : 0);
    int fd = memfd_create("over", 0);
    if (ftruncate(fd, PAGE)) return;
    if (pwrite(fd, "z", 1, 0) != 1) return;
    void *r = mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_FIXED | (a[1] == 0 ? MAP_SHARED : MAP_PRIVATE) | (a[1] == 2 ? MAP_ANONYMOUS : 0), a[1] == 2 ? -1 : fd, 0);
    close(fd);
    say(" %d", r == at);
    tell_area(i);
}

OP(lock_memory, 5, NO_VFORK, 4, AREAS) {
    static const int flags[] = {MCL_CURRENT, MCL_FUTURE, MCL_CURRENT | MCL_FUTURE, MCL_ONFAULT | MCL_CURRENT | MCL_FUTURE};
    int i = next_area(a[1], true);
    if (a[0] == 0 && i >= 0) return say(" one %s", outcome(mlock(areas[i].at, areas[i].pages * PAGE)));
    /* Under a limit all of the process's memory counts, the image's too (CAVEATS). */
    if (getuid() != 0) return say(" skipped");
    say(" %s", outcome(mlockall(flags[a[0]])));
}

OP(unlock_memory, 4, NO_VFORK, 1) { say(" %s", outcome(munlockall())); }

/* What a child finds. */
OP(areas, 8, 0, 1) {
    for (int i = 0; i < AREAS; i++) {
        if (!areas[i].at) continue;
        say(" <%d", i);
        tell_area(i);
        say(">");
    }
}

/* A thread that overruns its stack. */
static __thread sigjmp_buf back;
static void overrun_handler(int sig) {
    (void)sig;
    siglongjmp(back, 1);
}
static char *low, *high;
static void *run_over(void *unused) {
    (void)unused;
    pthread_attr_t attributes;
    void *address;
    size_t size;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &address, &size);
    pthread_attr_destroy(&attributes);
    static char stack[65536];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&other, 0);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    pthread_sigmask(SIG_UNBLOCK, &set, 0);
    volatile char *below = (char *)address - 1;
    volatile int caught = sigsetjmp(back, 1);
    if (!caught) *below = 1;
    other.ss_flags = SS_DISABLE;
    sigaltstack(&other, 0);
    (void)low, (void)high;
    return (void *)(long)caught;
}

static long tasks(void) {
    struct stat status;
    return stat("/proc/self/task", &status) ? 0 : status.st_nlink;
}

OP(stack_guard, 8, NO_VFORK, 4, 4, 3) {
    long before_all = tasks();
    struct sigaction act = {.sa_handler = overrun_handler, .sa_flags = SA_ONSTACK}, before;
    pthread_attr_t attributes;
    pthread_t threads[4];
    static const size_t sizes[] = {65536, 1 << 20, 20480, 8 << 20};
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, sizes[a[1]]);
    if (a[2]) pthread_attr_setguardsize(&attributes, a[2] * 8192);
    sigaction(SIGSEGV, &act, &before);
    long caught = 0;
    for (int i = 0; i <= a[0]; i++) {
        void *r = 0;
        if (pthread_create(&threads[i], &attributes, run_over, 0)) say(" none");
        else pthread_join(threads[i], &r);
        caught += (long)r;
    }
    sigaction(SIGSEGV, &before, 0);
    /* They are joined a moment before they are gone. */
    for (long until = now_ms() + 3000; tasks() > before_all && now_ms() < until;) pause_shortly();
    say(" %ld of %ld", caught, a[0] + 1);
}

/* A word that two processes share, which lies where it did or was moved there. */
OP(shared_word, 8, NO_VFORK, 5, 3, 3) {
    _Atomic uint32_t *word = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (a[0] == 1 || a[0] == 2) {
        void *room = mmap(0, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        word = mremap((void *)word, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room);
    }
    uint32_t value = a[0] == 3 ? 0x80000000u | 0x400001 : a[0] == 4 ? 0x80000000u | gettid() : 5;
    *word = value;
    pid_t pid = quiet_fork();
    if (pid == 0) {
        struct timespec t = {4, 0};
        long r = a[1] == 0 ? syscall(SYS_futex, word, FUTEX_WAIT, value, &t, 0, 0)
                           : syscall(SYS_futex, word, FUTEX_WAIT_BITSET, value, 0, 0, a[1] == 1 ? 1 : -1);
        _exit(r == 0 ? 1 : errno);
    }
    char path[64];
    for (long until = now_ms() + 3000; now_ms() < until;) {
        char text[512], *end;
        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        int fd = open(path, O_RDONLY);
        ssize_t n = read(fd, text, sizeof text - 1);
        close(fd);
        text[n > 0 ? n : 0] = 0;
        end = strrchr(text, ')');
        if (end && (end[2] == 'S' || end[2] == 'Z')) break;
        pause_shortly();
    }
    if (a[1] == 1) {
        long r = syscall(SYS_futex, word, FUTEX_WAKE_BITSET, 5, 0, 0, 2);
        say(" others %ld", r);
    }
    say(" kept %d", *word == value);
    *word = value + (a[2] == 0);
    /* It may not yet wait: then it is woken once it does, or finds another value. */
    for (long until = now_ms() + 3000; now_ms() < until; pause_shortly()) {
        syscall(SYS_futex, word, FUTEX_WAKE, 5, 0, 0, 0);
        siginfo_t info = {0};
        if (waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 && info.si_pid) break;
    }
    kill(pid, SIGKILL);
    int status = end_of(pid);
    say(" status %x", status == 0x0b00 ? 0x100 : status);
    munmap((void *)word, PAGE);
}

/* A mutex of two processes whose owner ends with it. */
OP(robust, 6, NO_VFORK, 3, 2) {
    pthread_mutex_t *mutex = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    if (a[1]) pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(mutex, &attributes);
    pid_t pid = quiet_fork();
    if (pid == 0) {
        pthread_mutex_lock(mutex);
        if (a[0] == 1) kill(getpid(), SIGKILL);
        if (a[0] == 2) pthread_mutex_unlock(mutex);
        _exit(0);
    }
    end_of(pid);
    int r = pthread_mutex_trylock(mutex);
    say(" %s", r ? error_name(r) : "0");
    if (r == EOWNERDEAD) say(" %d", pthread_mutex_consistent(mutex));
    if (r == 0 || r == EOWNERDEAD) say(" %d", pthread_mutex_unlock(mutex));
    munmap(mutex, PAGE);
}

OP(limit, 6, 0, 16, 4) {
    struct rlimit limit, now;
    if (depth == 0 || in_vfork) return say(" skipped");
    static const rlim_t values[] = {0, 100, 1 << 30, RLIM_INFINITY};
    getrlimit(a[0], &limit);
    limit.rlim_cur = values[a[1]];
    if (a[0] == RLIMIT_CPU || a[0] == RLIMIT_NPROC || a[0] == RLIMIT_SIGPENDING || a[0] == RLIMIT_RTTIME || a[0] == RLIMIT_AS || a[0] == RLIMIT_DATA || a[0] == RLIMIT_STACK)
        limit.rlim_cur = values[2 + (a[1] & 1)];
    if (limit.rlim_cur > limit.rlim_max) limit.rlim_cur = limit.rlim_max;
    say(" %s", outcome(setrlimit(a[0], &limit)));
    getrlimit(a[0], &now);
    say(" %d", now.rlim_cur == limit.rlim_cur);
}
