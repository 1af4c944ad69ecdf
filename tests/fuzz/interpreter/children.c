/* Child processes of every kind; each executes steps of its own while the parent waits for its end. */
#include "core.h"
#include <linux/sched.h>
#include <poll.h>
#include <spawn.h>
#include <sys/ptrace.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

extern char **environ;

enum { FORK, VFORK, CLONE3, CLONE3_CLEAR, CLONE_FILES_TOO, CLONE_FS_TOO, FORK_INLINE };

/* Registers that a call keeps are the child's as well. */
static pid_t fork_inline(void) {
    static __thread long parts[4];
    long pid;
    __asm__ volatile("movq %[value], %%xmm0; movq %[value], %%xmm6; movq %[value], %%xmm15; syscall\n"
                     "movq %%xmm0, 0(%[out]); movq %%xmm6, 8(%[out]); movq %%xmm15, 16(%[out])"
                     : "=a"(pid)
                     : "a"(SYS_fork), [value] "r"(0x55aa55aaL), [out] "r"(parts)
                     : "rcx", "r11", "xmm0", "xmm6", "xmm15", "memory");
    if (pid == 0)
        for (int i = 0; i < 3; i++)
            if (parts[i] != 0x55aa55aaL) _exit(60 + i);
    return pid;
}

bool shared_descriptors, shared_folders;

static pid_t start(int way) {
    struct clone_args args = {.exit_signal = SIGCHLD};
    switch (way) {
    case CLONE3: return syscall(SYS_clone3, &args, sizeof args);
    case CLONE3_CLEAR: args.flags = CLONE_CLEAR_SIGHAND; return syscall(SYS_clone3, &args, sizeof args);
    case CLONE_FILES_TOO: shared_descriptors = true; return syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
    case CLONE_FS_TOO: shared_folders = true; return syscall(SYS_clone, CLONE_FS | SIGCHLD, 0, 0, 0, 0);
    case FORK_INLINE: return fork_inline();
    default: return fork();
    }
}

/* It stopped, went on and ended: how many of these signals become one is not told. */
static void forget_events(void) {
    struct timespec t = {0, 5000000};
    do drained = atomic_load(&logged), nanosleep(&t, 0);
    while (drained != atomic_load(&logged));
}

static void tell_status(const siginfo_t *info) {
    say(" %s %d", info->si_code == CLD_EXITED ? "exited" : info->si_code == CLD_STOPPED ? "stopped" : info->si_code == CLD_KILLED ? "killed" : "other",
        info->si_status);
}

/* Waits until the child has ended, and sets it going when it stops, which is said; it is left for `reap`. */
static bool await_end(pid_t pid) {
    for (bool stopped = false;; stopped = true) {
        siginfo_t info = {0};
        int r = waitid(P_PID, pid, &info, WEXITED | WSTOPPED | WNOWAIT | __WALL);
        if (r == -1 && errno == EINTR) continue;
        if (r == -1) {
            say(" waitid %s", error_name(errno));
            return stopped;
        }
        tell_status(&info);
        if (info.si_code != CLD_STOPPED) return stopped;
        waitid(P_PID, pid, &info, WSTOPPED);
        kill(pid, SIGCONT);
    }
}

static void reap(pid_t pid, int how) {
    int status = 0;
    siginfo_t info = {0};
    struct rusage usage;
    long r = -1;
    switch (how) {
    case 0: r = waitpid(pid, &status, __WALL); break;
    case 1: r = waitpid(-1, &status, __WALL); break;
    case 2: r = wait4(pid, &status, __WALL, &usage); break;
    case 3: r = waitid(P_PID, pid, &info, WEXITED | __WALL); break;
    case 4: r = waitpid(pid, &status, WNOHANG | __WALL); break;
    case 5: r = waitpid(0, &status, __WALL); break;
    }
    say(" reaped %s status %x code %d", r == pid ? "it" : r == -1 ? error_name(errno) : outcome(r), status, info.si_code);
}

/* Without a child the program ends: -1 as a process id would be everybody's. */
pid_t quiet_fork(void) {
    pid_t pid = syscall(SYS_clone, 0, 0, 0, 0, 0);
    if (pid < 0) _exit(97);
    return pid;
}

int end_of(pid_t pid) {
    int status = -1;
    while (waitpid(pid, &status, __WALL) < 0 && errno == EINTR) {}
    return status;
}

/* A vfork child is a function on a stack of its own, since steps use much of it. */
static int from_here, to_here;
static int child_steps(void *unused) {
    (void)unused;
    leader = getpid();
    workers[0].tid = leader;
    run_steps(from_here, to_here);
    _exit(5);
}

static pid_t start_sharing(int from, int to) {
    static char *stack;
    if (!stack) stack = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    from_here = from, to_here = to;
    /* Of the others nothing else: they may end their waits meanwhile, and say so. */
    int states[WORKERS];
    struct worker first = workers[0];
    for (int i = 1; i < WORKERS; i++) states[i] = workers[i].state;
    keep_dispositions();
    int slot = self;
    pid_t parent = leader, grand = starter;
    /* What the child is told about itself must be there before it runs. */
    in_vfork = true;
    depth++;
    for (int i = 1; i < WORKERS; i++) workers[i].state = ABSENT;
    workers[0] = workers[slot];
    workers[0].state = IDLE;
    starter = leader, leader = 0x7fffffff; /* No process, and above all not -1. */
    self = 0;
    pid_t pid = clone(child_steps, stack + (1 << 20), CLONE_VM | CLONE_VFORK | SIGCHLD, 0);
    int error = errno;
    self = slot;
    leader = parent, starter = grand;
    depth--;
    in_vfork = false;
    restore_dispositions();
    workers[0] = first;
    for (int i = 1; i < WORKERS; i++) workers[i].state = states[i];
    /* The handler of the signal of its end may have changed it meanwhile. */
    pthread_sigmask(SIG_BLOCK, 0, &workers[slot].mask);
    errno = error;
    return pid;
}

static void child(const long *a, int way) {
    struct step *step = here();
    int how = a[1], before = atomic_load(&logged);
    int at = index_of(step);
    sigset_t all, old;
    pid_t pid;
    bool sharing = way == VFORK;
    if (goes_astray(self, SIGCHLD)) return say(" skipped");
    if (sharing) {
        end_line();
        /* Its handlers are the parent's until the parent goes on; what it changes is its own. */
        logged_in_vfork = before;
        pid = start_sharing(at + 1, step->end);
        before = logged_in_vfork;
        begin_line("after", 0, 0);
    } else {
        /* No signal finds the child before it knows who it is, and that of its end finds this thread as it was. */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        end_line();
        atomic_store(may_begin, 0);
        pid = start(way);
        if (pid == 0) {
            after_fork();
            while (!atomic_load(may_begin)) pause_shortly();
            if (way == CLONE3_CLEAR) {
                for (int sig = 1; sig <= 64; sig++) {
                    struct sigaction act;
                    if (sigaction(sig, 0, &act) == 0 && act.sa_handler != SIG_DFL && act.sa_handler != SIG_IGN) {
                        begin_line("kept", 0, 0);
                        say(" handler of %s", signal_name(sig));
                        end_line();
                        break;
                    }
                }
                prepare_signals();
            }
            pthread_sigmask(SIG_SETMASK, &old, 0);
            run_steps(at + 1, step->end);
            _exit(a[0]);
        }
        int error = errno;
        begin_line("after", 0, 0);
        pthread_sigmask(SIG_SETMASK, &old, 0);
        atomic_store(may_begin, 1);
        errno = error;
    }
    if (pid < 0) return say(" refused %s", error_name(errno));
    bool stopped = await_end(pid);
    int early = atomic_load(&logged) - before;
    /* The end's signal goes to the thread that started the child, if that one takes it. */
    bool alone = true;
    for (int i = 1; i < WORKERS; i++) alone &= workers[i].state == ABSENT;
    /* Signals that the child sent come before or after that of its end. */
    unordered = true;
    if (alone && handled(SIGCHLD) && !blocked_by(self, SIGCHLD)) say(" now %d", early > 0);
    else if (handled(SIGCHLD) && deliverable(SIGCHLD)) {
        hide_taker = true;
        await_end_signal(before);
    }
    reap(pid, how);
    if (stopped) forget_events();
}

OP(fork, 16, OPENS | NO_VFORK, 8, 6) { child(a, FORK); }
OP(vfork, 8, OPENS | NO_VFORK, 8, 4) { child(a, VFORK); }
OP(clone3, 3, OPENS | NO_VFORK, 8, 4) { child(a, CLONE3); }
OP(clone_clear_handlers, 3, OPENS | NO_VFORK, 8, 4) { child(a, CLONE3_CLEAR); }
OP(clone_files, 4, OPENS | NO_VFORK, 8, 4) { child(a, CLONE_FILES_TOO); }
OP(clone_fs, 3, OPENS | NO_VFORK, 8, 4) { child(a, CLONE_FS_TOO); }
OP(fork_inline, 3, OPENS | NO_VFORK, 8, 4) { child(a, FORK_INLINE); }

OP(exit, 2, 0, 8) {
    if (depth > 0) {
        end_line();
        _exit(20 + a[0]);
    }
    say(" skipped");
}

/* To the parent, which waits for the end of this child. */
OP(kill_parent, 12, NO_VFORK, 64, 4) {
    int sig = a[0] + 1;
    /* `tgkill` by another process is in CAVEATS. */
    if (depth != 1 || fatal(sig) || a[1] == 2 || goes_astray_in_parent(sig)) return say(" skipped");
    int before = atomic_load(logged_at_top);
    long r = -1;
    switch (a[1]) {
    case 0: r = kill(starter, sig); break;
    case 1: r = sigqueue(starter, sig, (union sigval){.sival_int = 3}); break;
    case 3: {
        int fd = syscall(SYS_pidfd_open, starter, 0);
        r = syscall(SYS_pidfd_send_signal, fd, sig, 0, 0);
        close(fd);
    }
    }
    say(" %s", outcome(r));
    /* A second one that comes before the first is handled may be one with it, or another thread's. */
    for (long until = now_ms() + 3000; parent_takes(sig) && atomic_load(logged_at_top) == before && now_ms() < until;) pause_shortly();
}

/* The parent expects so many signals from a child that does nothing else. */
OP(child_kills, 12, NO_VFORK, 64, 4, 3, 4) {
    int sig = a[0] + 1, before = atomic_load(&logged), count = a[2] + 1;
    if (fatal(sig) || sig == SIGCHLD || a[1] == 2 || goes_astray(0, sig)) return say(" skipped");
    /* The next one may come before the handler of the one before has returned, and then another thread takes it. */
    if (count > 1 && goes_astray(-1, sig)) return say(" skipped");
    sigset_t set;
    int ends[2];
    if (pipe(ends)) return;
    pid_t target = getpid(), pid = quiet_fork();
    if (pid == 0) {
        for (int i = 0; i < count; i++) {
            if (i > 0) {
                /* The one before has been handled. */
                char byte;
                if (read(ends[0], &byte, 1) != 1) _exit(9);
            }
            if (a[1] == 0) kill(target, sig);
            if (a[1] == 1) sigqueue(target, sig, (union sigval){.sival_int = 3});
            if (a[1] == 3) {
                int fd = syscall(SYS_pidfd_open, target, 0);
                syscall(SYS_pidfd_send_signal, fd, sig, 0, 0);
            }
        }
        _exit(0);
    }
    bool comes = handled(sig) && deliverable(sig);
    for (int i = 0; i < count; i++) {
        /* Handlers may raise others. */
        if (comes) await_signals(sig, before, i + 1);
        if (write(ends[1], "x", 1) != 1) break;
    }
    if (blocked_by(0, sig) || count > 1) hide_taker = true;
    sigset_t took;
    say(" status %x", end_of(pid));
    sigpending(&took);
    struct timespec zero = {0, 0};
    if (!comes && sigismember(&took, sig) == 1 && blocked_by(self, sig)) {
        sigemptyset(&set);
        sigaddset(&set, sig);
        say(" pending, taken %d", sigtimedwait(&set, 0, &zero));
    }
    close(ends[0]);
    close(ends[1]);
}

/* A signal and then the end: both have been handled when waitpid returns. */
OP(chld_order, 6, NO_VFORK, 8) {
    int sig = common_signals[a[0]], before = atomic_load(&logged);
    bool one = handled(sig) && !blocked_by(self, sig), both = handled(SIGCHLD) && !blocked_by(self, SIGCHLD);
    if (fatal(sig) || self != 0 || sig == SIGCHLD) return say(" skipped");
    /* A thread that has not come to handle one signal yet is not asked to take another: any that waits may be. */
    for (int i = 1; i < WORKERS; i++)
        if (workers[i].state != ABSENT) return say(" skipped");
    pid_t me = getpid(), pid = fork();
    if (pid == 0) {
        kill(me, sig);
        _exit(0);
    }
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    int now = atomic_load(&logged) - before;
    say(" status %x complete %d", status, now >= one + both);
    hide_taker = true;
    await_events(before + one + both);
    /* Nested in either order. */
    drained = atomic_load(&logged);
}

OP(waitpid, 4, 0, 6, 4) {
    static const int pids[] = {-1, 0, 1, 999999, -999999, 2147483647};
    static const int options[] = {WNOHANG, WNOHANG | WUNTRACED, WNOHANG | 0x7000, WNOHANG | __WNOTHREAD};
    int status = 0;
    say(" %s", outcome(waitpid(pids[a[0]], &status, options[a[1]])));
}

OP(waitid, 4, 0, 5, 4, 4) {
    static const int pids[] = {0, 1, 999999, -1, 7};
    static const int options[] = {WNOHANG | WEXITED, WNOHANG, WNOHANG | WSTOPPED | WNOWAIT, WNOHANG | WEXITED | 0x100000};
    siginfo_t info;
    memset(&info, 0x55, sizeof info);
    int r = waitid(a[2], pids[a[0]], &info, options[a[1]]);
    say(" %s", outcome(r));
    if (r == 0) say(" %d", info.si_signo);
}

static const char *programs[] = {"/nonexistent/x", "/etc/hostname", "/", "", "fuzz-fifo", "/etc/passwd/x", "/bin/true"};

/* Refused, and all is as it was; in a child it may succeed. */
OP(execve, 8, NO_VFORK, 7, 3) {
    const char *path = programs[a[0]];
    if (depth == 0 && a[0] == 6) return say(" skipped");
    if (a[0] == 4) mkfifo(path, 0700);
    int before = atomic_load(&logged);
    char *args[] = {"x", 0};
    if (a[1] == 1 && handled(SIGUSR1)) raise(SIGUSR1);
    if (a[0] == 6) end_line();
    long r = a[1] == 2 ? syscall(SYS_execveat, AT_FDCWD, path, args, environ, 0) : execve(path, args, environ);
    say(" %s now %d", outcome(r), atomic_load(&logged) - before);
    if (a[0] == 4) unlink(path);
}

/* A pending signal that is handled does not end a program whose execve fails. */
OP(exec_under_fire, 3, NO_VFORK, 3) {
    if (!handled(SIGALRM) || blocked_by(self, SIGALRM) || self != 0) return say(" skipped");
    int before = atomic_load(&logged);
    timer_t timer;
    /* What comes while the handler runs would be another thread's. */
    struct sigevent event = {.sigev_notify = deliverable_elsewhere(SIGALRM) ? SIGEV_THREAD_ID : SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    event._sigev_un._tid = gettid();
    struct itimerspec spec = {{0, 500000}, {0, 500000}};
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &spec, 0);
    char *args[] = {"x", 0};
    for (int i = 0; i < 100 || atomic_load(&logged) == before; i++) execve(programs[a[0]], args, environ);
    timer_delete(timer);
    say(" alive");
    drained = atomic_load(&logged);
}

int report_after_exec(int argc, char **argv) {
    (void)argc;
    self = 0;
    depth = atoi(argv[2]);
    begin_line("new program", 0, 0);
    sigset_t set;
    sigprocmask(SIG_BLOCK, 0, &set);
    say(" mask");
    for (int sig = 1; sig <= 64; sig++)
        if (sig != 32 && sig != 33 && sigismember(&set, sig) == 1) say(" %d", sig);
    sigpending(&set);
    say(" pending");
    for (int sig = 1; sig <= 64; sig++)
        if (sigismember(&set, sig) == 1) say(" %d", sig);
    say(" ignored");
    for (int sig = 1; sig <= 64; sig++) {
        struct sigaction act;
        if (sigaction(sig, 0, &act) == 0 && act.sa_handler == SIG_IGN) say(" %d", sig);
    }
    struct sched_param param;
    sched_getparam(0, &param);
    cpu_set_t cpus;
    sched_getaffinity(0, sizeof cpus, &cpus);
    say(" policy %d %d nice %d slack %d", sched_getscheduler(0), param.sched_priority, getpriority(PRIO_PROCESS, 0), prctl(PR_GET_TIMERSLACK));
    say(" alarm %d dumpable %d keepcaps %d", alarm(0) != 0, prctl(PR_GET_DUMPABLE), prctl(PR_GET_KEEPCAPS));
    say(" same %d", getpid() == gettid());
    end_line();
    return 30;
}

static void exec_itself(void) {
    char number[16];
    snprintf(number, sizeof number, "%d", depth);
    char *args[] = {"interpreter", "--after-exec", number, 0};
    execve("/proc/self/exe", args, environ);
}

/* The whole life of a program that was started in some state. */
OP(exec_itself, 5, 0, 2) {
    if (depth == 0) return say(" skipped");
    end_line();
    exec_itself();
    _exit(51);
}

OP(spawn_program, 5, NO_VFORK, 4, 8) {
    /* The C library blocks all signals of the thread that spawns: its own is none of those that take the child's. */
    if (goes_astray(-1, SIGCHLD)) return say(" skipped");
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, common_signals[a[1]]);
    posix_spawnattr_setsigmask(&attributes, &set);
    posix_spawnattr_setsigdefault(&attributes, &set);
    posix_spawnattr_setflags(&attributes, a[0] & 1 ? POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF : 0);
    char number[16];
    snprintf(number, sizeof number, "%d", depth + 1);
    char *args[] = {"interpreter", "--after-exec", number, 0};
    int before = atomic_load(&logged);
    end_line();
    pid_t pid;
    int r = posix_spawn(&pid, a[0] & 2 ? "/nonexistent" : "/proc/self/exe", 0, &attributes, args, environ);
    begin_line("after", 0, 0);
    say(" %s", r ? error_name(r) : "0");
    if (r == 0) {
        await_end(pid);
        reap(pid, 0);
    }
    /* A spawn that failed had a child as well. */
    if (handled(SIGCHLD) && deliverable(SIGCHLD)) await_end_signal(before);
    drained = atomic_load(&logged);
}

/* A traced child stops for each signal that it sends to itself, an ignored one as well. */
OP(traced, 4, NO_VFORK | MAIN_ONLY, 8, 3) {
    int sig = common_signals[a[0]];
    /* The parent hears of stops, and of the end where the child had more than one host thread: that is not told. */
    if (blocked_by(0, SIGCHLD)) return say(" skipped");
    sigset_t set;
    pid_t pid = quiet_fork();
    if (pid == 0) {
        struct sigaction act = {.sa_handler = a[1] ? SIG_DFL : SIG_IGN};
        sigaction(sig, &act, 0);
        sigemptyset(&set);
        sigprocmask(SIG_SETMASK, &set, 0);
        if (ptrace(PTRACE_TRACEME, 0, 0, 0)) _exit(80);
        if (a[1] == 2) raise(sig);
        else kill(getpid(), sig);
        _exit(3);
    }
    int status = 0;
    for (int i = 0; i < 4;) {
        status = end_of(pid);
        /* A tracer sees ticks and kicks as well (CAVEATS), and passes them on. */
        int passed = WIFSTOPPED(status) && (WSTOPSIG(status) == 32 || WSTOPSIG(status) == 33) ? WSTOPSIG(status) : 0;
        if (!passed) say(" %x", status), i++;
        if (!WIFSTOPPED(status)) break;
        ptrace(PTRACE_CONT, pid, 0, passed);
    }
    drained = atomic_load(&logged);
}
