/* Dispositions, masks, handlers that do things, and signals that the program sends to itself. */
#include "core.h"
#include <sys/pidfd.h>
#include <sys/signalfd.h>

enum { NOTHING, RAISE_ANOTHER, BLOCK_IN_CONTEXT, FORK, CLOBBER, JUMP, UNBLOCK, SWITCH_OFF, REACTIONS };
enum { ON_STACK = 1, NESTED = 2, DIRECTION = 4, UNALIGNED = 8 };

struct event events[EVENTS];
_Atomic int logged, *logged_at_top, *may_begin;
int drained;
uint64_t read_by_descriptors;
static uint64_t taken_by_parent, astray_in_parent;
bool hide_taker, unordered;
const int common_signals[8] = {SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGCHLD, SIGURG, 40, 63};

static struct sigaction actions[65];
static int reactions[65];
static _Atomic int level[WORKERS]; /* How many handlers each thread is in. */
static __thread sigjmp_buf jump;
static __thread volatile int may_jump;
static __thread char other_stack[65536] __attribute__((aligned(16)));
static __thread bool has_stack;

const char *signal_name(int sig) {
    static __thread char texts[4][16];
    static __thread int turn;
    char *text = texts[turn++ % 4];
    const char *name = sig > 0 && sig < 32 ? sigabbrev_np(sig) : 0;
    if (name) snprintf(text, 16, "%s", name);
    else snprintf(text, 16, "%d", sig);
    return text;
}

static uint64_t bits(const sigset_t *set) {
    uint64_t all = 0;
    for (int i = 1; i <= 64; i++)
        if (i != 32 && i != 33 && sigismember(set, i) == 1) all |= 1ull << (i - 1);
    return all;
}

const char *who_is(pid_t pid) {
    if (pid == 0) return "0";
    if (pid == leader) return "me";
    if (pid == starter) return "parent";
    return "another";
}

static int sender(const siginfo_t *info) {
    if (info->si_code > 0) return 4; /* No such field, or the child of which the status tells. */
    if (info->si_code == SI_TIMER || info->si_code == SI_MESGQ) return 4;
    /* Not `leader`, which is the child's when a vfork child has just ended. */
    return info->si_pid == 0 ? 0 : info->si_pid == getpid() ? 1 : info->si_pid == starter ? 2 : 3;
}

static void handler(int sig, siginfo_t *info, void *context) {
    int error = errno;
    ucontext_t *uc = context;
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, 0, &mask);
    char *frame = __builtin_frame_address(0);
    uint64_t flags;
    __asm__ volatile("pushfq; pop %0" : "=r"(flags));
    struct event e = {.signal = sig, .code = info->si_code, .who = self, .from = sender(info), .mask = bits(&mask)};
    if (frame >= other_stack && frame < other_stack + (long)sizeof other_stack) e.flags |= ON_STACK;
    if (level[self] > 0) e.flags |= NESTED;
    if (flags & 0x400) e.flags |= DIRECTION;
    if ((uintptr_t)frame % 16 != 0) e.flags |= UNALIGNED;
    if (info->si_code == SI_QUEUE || info->si_code == SI_TIMER || info->si_code == SI_MESGQ) e.value = info->si_value.sival_int;
    if (sig == SIGCHLD && info->si_code > 0) e.value = info->si_status;
    level[self]++;
    int at = atomic_fetch_add(&logged, 1);
    if (at < EVENTS) {
        events[at] = e;
        atomic_store(&events[at].written, true);
    }
    if (depth == 0) atomic_fetch_add(logged_at_top, 1);
    switch (reactions[sig]) {
    case RAISE_ANOTHER:
        if (level[self] < 3 && handled(SIGURG) && sig != SIGURG) raise(SIGURG);
        break;
    case BLOCK_IN_CONTEXT:
        sigaddset(&uc->uc_sigmask, SIGUSR2);
        sigaddset(&workers[self].mask, SIGUSR2);
        break;
    case FORK: {
        /* Where it may interrupt itself, a timer that is faster than a fork would do so until the stack is full. */
        if (sig == SIGCHLD || level[self] >= 3) break;
        pid_t pid = quiet_fork();
        if (pid == 0) _exit(3);
        end_of(pid);
        break;
    }
    case CLOBBER:
        __asm__ volatile("pcmpeqd %%xmm0, %%xmm0; movdqa %%xmm0, %%xmm7; movdqa %%xmm0, %%xmm15" ::: "xmm0", "xmm7", "xmm15");
        sched_yield();
        break;
    case SWITCH_OFF:
        actions[sig].sa_flags &= ~SA_RESTART;
        sigaction(sig, &actions[sig], 0);
        break;
    case JUMP:
        if (may_jump && level[self] == 1) {
            level[self] = 0;
            may_jump = 0;
            errno = error;
            siglongjmp(jump, sig);
        }
    }
    level[self]--;
    if (actions[sig].sa_flags & SA_RESETHAND) actions[sig].sa_handler = SIG_DFL;
    errno = error;
}

void prepare_signals(void) {
    for (int sig = 1; sig <= 64; sig++) {
        if (sig == SIGKILL || sig == SIGSTOP || sig == 32 || sig == 33) continue;
        struct sigaction act = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
        actions[sig] = act;
        sigaction(sig, &act, 0);
    }
}

void begin_signals(void) {
    logged_at_top = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    may_begin = logged_at_top + 1;
    prepare_signals();
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, WAITED_FOR);
    pthread_sigmask(SIG_BLOCK, &set, 0);
    pthread_sigmask(SIG_BLOCK, 0, &workers[0].mask);
}

/* A child that shares the memory has dispositions of its own. */
static struct sigaction kept_actions[65];
static int kept_reactions[65];

void keep_dispositions(void) {
    memcpy(kept_actions, actions, sizeof actions);
    memcpy(kept_reactions, reactions, sizeof reactions);
}

void restore_dispositions(void) {
    memcpy(actions, kept_actions, sizeof actions);
    memcpy(reactions, kept_reactions, sizeof reactions);
}

bool handled(int sig) { return actions[sig].sa_handler != SIG_DFL && actions[sig].sa_handler != SIG_IGN; }

bool leaves_traces(int sig) {
    int reaction = reactions[sig];
    return reaction == BLOCK_IN_CONTEXT || reaction == UNBLOCK || reaction == SWITCH_OFF || actions[sig].sa_flags & SA_RESETHAND;
}

bool fatal(int sig) {
    if (sig == SIGKILL || sig == SIGSTOP || sig == 32 || sig == 33) return true;
    if (sig == WAITED_FOR) return true;
    if (actions[sig].sa_handler != SIG_DFL) return false;
    return sig != SIGCHLD && sig != SIGURG && sig != SIGWINCH && sig != SIGCONT;
}

bool blocked_by(int slot, int sig) { return sigismember(&workers[slot].mask, sig) == 1; }

bool deliverable(int sig) {
    for (int i = 0; i < WORKERS; i++)
        if (workers[i].state != ABSENT && !blocked_by(i, sig)) return true;
    return false;
}

/* The handlers of other threads have returned. A thread whose handler has not may still take what is sent to the process
 * next, before the thread that Linux chose takes it (`recalc_sigpending`). */
static void await_returns(void) {
    for (int i = 0; depth == 0 && i < WORKERS; i++) {
        if (i == self || workers[i].state == ABSENT) continue;
        for (long until = now_ms() + 1000; now_ms() < until; pause_shortly())
            if (!atomic_load(&level[i]) && thread_state(workers[i].tid) != 'R') break;
    }
}

void await_events(int count) {
    for (long until = now_ms() + 3000; atomic_load(&logged) < count && now_ms() < until;) pause_shortly();
    if (atomic_load(&logged) < count) say(" LOST");
    await_returns();
}

static int by_signal(const void *a, const void *b) {
    const struct event *first = a, *second = b;
    return first->signal != second->signal ? first->signal - second->signal : first->code - second->code;
}

void tell_events(void) {
    static const char *from[] = {"0", "me", "parent", "another", "-"};
    int all = atomic_load(&logged);
    /* Another thread's handler may have counted one that it has not written yet; a child's copy of that will never be. */
    for (int i = drained; i < all && i < EVENTS; i++)
        for (long until = now_ms() + 1000; !atomic_load(&events[i].written) && now_ms() < until;) pause_shortly();
    if (unordered && all - drained > 1) {
        hide_taker = true;
        if (all <= EVENTS) qsort(events + drained, all - drained, sizeof *events, by_signal);
        for (int i = drained; i < all && i < EVENTS; i++) events[i].flags &= ~NESTED;
    }
    for (; drained < all && drained < EVENTS; drained++) {
        struct event *e = &events[drained];
        say(" [%s code %d from %s", signal_name(e->signal), e->code, from[e->from]);
        if (e->value) say(" value %ld", e->value);
        if (!hide_taker) say(" by %d mask %lx", e->who, (long)e->mask);
        if (e->flags) say(" flags %d", e->flags);
        say("]");
    }
    hide_taker = unordered = false;
}

static bool of_fault(int sig) {
    return sig == SIGSEGV || sig == SIGBUS || sig == SIGILL || sig == SIGFPE || sig == SIGTRAP || sig == SIGSYS;
}

/* The first one takes what it can; else Linux goes round among the others. Each signal to the process wakes those that read a
 * `signalfd`, whichever signals that has, and one of them that does not block it may be the first to take it
 * (`signalfd_notify`, `dequeue_signal`). */
bool goes_astray(int first, int sig) {
    if (depth > 0 || !handled(sig)) return false;
    bool taken = first >= 0 && !blocked_by(first, sig);
    for (int i = 0; i < WORKERS; i++) {
        bool waits = workers[i].state == WAITING || workers[i].state == SHARING;
        if (waits && !blocked_by(i, sig) && (!taken || reads_signals(i))) return true;
        /* Its call may start over, and then finds another file or none (CAVEATS). */
        if (of_fault(sig) && waits_for_another_number(i)) return true;
        /* It blocks all of them only until it comes back. */
        if (workers[i].state == SHARING && !taken) return true;
    }
    return false;
}

bool goes_astray_in_parent(int sig) { return astray_in_parent >> (sig - 1) & 1; }

static void await_signals_from(int sig, int least_code, int before, int count) {
    for (long until = now_ms() + 3000; now_ms() < until; pause_shortly()) {
        int come = 0;
        for (int i = before; i < atomic_load(&logged) && i < EVENTS; i++)
            come += atomic_load(&events[i].written) && events[i].signal == sig && events[i].code >= least_code;
        if (come >= count) return await_returns();
    }
    say(" LOST");
}

void await_signals(int sig, int before, int count) { await_signals_from(sig, INT_MIN, before, count); }

void await_end_signal(int before) { await_signals_from(SIGCHLD, CLD_EXITED, before, 1); }

bool deliverable_elsewhere(int sig) {
    for (int i = 0; i < WORKERS; i++)
        if (i != self && workers[i].state != ABSENT && !blocked_by(i, sig)) return true;
    return false;
}

bool parent_takes(int sig) { return taken_by_parent >> (sig - 1) & 1; }

/* A child has only this thread. */
void after_fork(void) {
    taken_by_parent = astray_in_parent = 0;
    for (int sig = 1; sig <= 64; sig++) {
        if (handled(sig) && deliverable(sig)) taken_by_parent |= 1ull << (sig - 1);
        if (goes_astray(0, sig)) astray_in_parent |= 1ull << (sig - 1);
    }
    workers[0] = workers[self];
    for (int i = 1; i < WORKERS; i++) workers[i].state = ABSENT;
    workers[0].state = IDLE;
    self = 0;
    starter = leader;
    leader = getpid();
    workers[0].tid = leader;
    depth++;
}

/* The same order for all: nothing is sent that would end the first process. */
static bool allowed(int sig) {
    return (!fatal(sig) || depth > 0) && sig != WAITED_FOR;
}

/* Process-directed: the leader takes it if it can; otherwise Linux goes round among the others. */
static void expect_shared(int sig, int before) {
    if (!handled(sig) || !deliverable(sig)) return;
    if (blocked_by(0, sig)) hide_taker = true;
    await_events(before + 1);
}

OP(action, 14, 0, 64, 8, 64, REACTIONS, 4) {
    int sig = a[0] + 1;
    /* 60 ends waits that nothing else ends. */
    if (sig == 32 || sig == 33 || sig == WAITED_FOR || sig == 60) return say(" skipped");
    struct sigaction act = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    if (a[1] == 6) act.sa_handler = SIG_IGN;
    if (a[1] == 7) act.sa_handler = SIG_DFL;
    if (depth == 0 && a[1] == 7 && sig != SIGCHLD && sig != SIGURG && sig != SIGWINCH && sig != SIGCONT) act.sa_sigaction = handler;
    static const int flags[] = {SA_RESTART, SA_NODEFER, SA_ONSTACK, (int)SA_RESETHAND, SA_NOCLDSTOP, SA_NOCLDWAIT};
    for (int i = 0; i < 6; i++)
        if (a[2] >> i & 1 && (flags[i] != (int)SA_RESETHAND || depth > 0) && flags[i] != SA_NOCLDWAIT) act.sa_flags |= (int)flags[i];
    if (a[4] & 1) sigaddset(&act.sa_mask, SIGUSR1);
    if (a[4] & 2) sigaddset(&act.sa_mask, 40);
    struct sigaction old;
    int r = sigaction(sig, &act, &old);
    say(" %s", outcome(r));
    if (r) return;
    say(" was %s flags %x", old.sa_handler == SIG_DFL ? "default" : old.sa_handler == SIG_IGN ? "ignored" : "handled",
        old.sa_flags & ~0x04000000);
    actions[sig] = act;
    reactions[sig] = a[3];
}

OP(mask, 12, 0, 3, 8, 64) {
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, common_signals[a[1]]);
    if (a[2] & 1) sigaddset(&set, SIGUSR1);
    if (a[2] & 2) sigaddset(&set, 40);
    if (a[2] & 4) sigaddset(&set, SIGCHLD);
    if (a[2] & 8) sigaddset(&set, SIGKILL);
    if (a[2] & 16 && a[2] != WAITED_FOR && a[2] != 60) sigaddset(&set, a[2]);
    if (a[0] == 2) sigaddset(&set, WAITED_FOR);
    static const int how[] = {SIG_BLOCK, SIG_UNBLOCK, SIG_SETMASK};
    int before = atomic_load(&logged);
    say(" %s", outcome(pthread_sigmask(how[a[0]], &set, &old)));
    say(" now %d", atomic_load(&logged) - before);
    pthread_sigmask(SIG_BLOCK, 0, &workers[self].mask);
    say(" old %lx new %lx", (long)bits(&old), (long)bits(&workers[self].mask));
}

OP(pending, 3, 0, 1) {
    sigset_t set;
    sigpending(&set);
    say(" %lx", (long)bits(&set));
}

OP(altstack, 3, 0, 5) {
    stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack}, old;
    if (a[0] == 1) stack.ss_flags = SS_DISABLE;
    if (a[0] == 2) stack.ss_size = 100;
    if (a[0] == 3) stack.ss_flags = 77;
    if (a[0] == 4) stack.ss_flags = (int)(1u << 31);
    int r = sigaltstack(&stack, &old);
    say(" %s", outcome(r));
    if (r == 0) say(" old %x %s", old.ss_flags, old.ss_sp == other_stack ? "mine" : "none"), has_stack = a[0] != 1;
}

/* A thread blocks it, others are there, and there has been a descriptor for it: CAVEATS. */
static bool is_taken_as_sent_to_process(int sig) {
    bool others = false;
    for (int i = 0; i < WORKERS; i++) others |= i != self && workers[i].state != ABSENT;
    return others && blocked_by(self, sig) && (read_by_descriptors >> (sig - 1) & 1);
}

/* To itself: handled before the call returns, if it is not blocked. */
OP(raise, 14, 0, 64, 5) {
    int sig = a[0] + 1;
    if (!allowed(sig) || is_taken_as_sent_to_process(sig)) return say(" skipped");
    int before = atomic_load(&logged);
    siginfo_t info = {.si_signo = sig, .si_code = SI_QUEUE, .si_pid = leader, .si_uid = getuid(), .si_value.sival_int = 77};
    long r = -1;
    switch (a[1]) {
    case 0: r = raise(sig); break;
    case 1: r = syscall(SYS_tgkill, leader, gettid(), sig); break;
    case 2: r = syscall(SYS_tkill, gettid(), sig); break;
    case 3: r = syscall(SYS_rt_tgsigqueueinfo, leader, gettid(), sig, &info); break;
    case 4: r = pthread_sigqueue(pthread_self(), sig, (union sigval){.sival_int = 12}), errno = r, r = r ? -1 : 0; break;
    }
    say(" %s now %d", outcome(r), atomic_load(&logged) - before);
}

/* To the own process, by all ways that there are. */
OP(kill, 16, 0, 64, 10) {
    int sig = a[0] + 1;
    bool names_itself = a[1] == 7 || a[1] == 8;
    if (!allowed(sig) || goes_astray(names_itself ? self : 0, sig)) return say(" skipped");
    int before = atomic_load(&logged);
    siginfo_t info = {.si_signo = sig, .si_code = SI_QUEUE, .si_pid = leader, .si_uid = getuid(), .si_value.sival_int = 5};
    bool group = a[1] == 1 || a[1] == 2;
    if (group && depth > 0) return say(" skipped");
    long r = -1;
    switch (a[1]) {
    case 0: r = kill(leader, sig); break;
    case 1: r = kill(0, sig); break;
    case 2: r = kill(-getpgid(0), sig); break;
    case 3: r = sigqueue(leader, sig, (union sigval){.sival_int = 9}); break;
    case 4:
    case 5: {
        int fd = pidfd_open(leader, 0);
        r = pidfd_send_signal(fd, sig, a[1] == 4 ? 0 : &info, 0);
        close(fd);
        break;
    }
    case 6: r = syscall(SYS_rt_sigqueueinfo, leader, sig, &info); break;
    case 7: r = kill(gettid(), sig); break;
    case 8: r = syscall(SYS_rt_sigqueueinfo, gettid(), sig, &info); break;
    case 9: {
        struct f_owner_ex owner = {F_OWNER_PID, leader};
        int ends[2];
        if (pipe(ends)) return;
        if (fcntl(ends[0], F_SETOWN_EX, &owner) || fcntl(ends[0], F_SETSIG, sig) || fcntl(ends[0], F_SETFL, O_ASYNC)) say(" refused");
        r = write(ends[1], "x", 1);
        close(ends[0]);
        close(ends[1]);
    }
    }
    int now = atomic_load(&logged) - before;
    say(" %s", outcome(r));
    /* Signals of faults that the host sends may take a moment longer (CAVEATS), and another thread runs when it runs. */
    bool elsewhere = blocked_by(0, sig) && deliverable(sig);
    if (r >= 0 && self == 0 && !of_fault(sig) && !elsewhere) say(" now %d", now);
    if (r >= 0) expect_shared(sig, before);
}

/* To a worker. */
OP(thread_kill, 10, TOP_ONLY, WORKERS, 8, 3) {
    int sig = common_signals[a[1]], slot = a[0], before = atomic_load(&logged);
    if (workers[slot].state == ABSENT || workers[slot].state == WAITING || workers[slot].state == SHARING || !allowed(sig)) return say(" skipped");
    long r = a[2] == 0 && slot != 0 ? pthread_kill(workers[slot].handle, sig) : 0;
    if (a[2] == 1 || (a[2] == 0 && slot == 0)) r = syscall(SYS_tgkill, leader, workers[slot].tid, sig);
    if (a[2] == 2) r = syscall(SYS_tkill, workers[slot].tid, sig);
    say(" %s", outcome(r));
    if (r == 0 && handled(sig) && !blocked_by(slot, sig)) await_events(before + 1);
}

/* Takes what is pending without waiting. */
OP(sigtimedwait, 10, 0, 8, 4) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, common_signals[a[0]]);
    if (a[1] & 1) sigaddset(&set, 40);
    siginfo_t info = {0};
    struct timespec zero = {0, a[1] & 2 ? 1000000 : 0};
    if (!blocked_by(self, common_signals[a[0]])) return say(" skipped");
    int r = sigtimedwait(&set, &info, &zero);
    say(" %s", outcome(r));
    if (r > 0) say(" code %d from %d", info.si_code, sender(&info));
}

OP(signalfd, 5, 0, 8) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, common_signals[a[0]]);
    read_by_descriptors |= 1ull << (common_signals[a[0]] - 1);
    int fd = signalfd(-1, &set, SFD_NONBLOCK);
    struct signalfd_siginfo info;
    ssize_t n = read(fd, &info, sizeof info);
    say(" %s", outcome(n));
    if (n > 0) say(" %s code %d", signal_name(info.ssi_signo), info.ssi_code);
    close(fd);
}

/* Waits with another mask for a signal that is pending. */
OP(sigsuspend, 6, NO_VFORK, 8, 3) {
    int sig = common_signals[a[0]], before = atomic_load(&logged);
    sigset_t block, old, open, pending;
    /* Which of two comes first is in CAVEATS. */
    bool comes_second = read_by_descriptors >> (sig - 1) & 1 && sigpending(&pending) == 0 && sigismember(&pending, sig);
    if (!handled(sig) || comes_second) return say(" skipped");
    sigemptyset(&block);
    sigaddset(&block, sig);
    pthread_sigmask(SIG_BLOCK, &block, &old);
    syscall(SYS_tgkill, leader, gettid(), sig);
    sigfillset(&open);
    sigdelset(&open, sig);
    say(" before %d", atomic_load(&logged) - before);
    struct timespec long_time = {5, 0};
    if (a[1] == 0) say(" %s", outcome(sigsuspend(&open)));
    if (a[1] == 1) say(" %s", outcome(syscall(SYS_ppoll, 0, 0, &long_time, &open, 8)));
    if (a[1] == 2) {
        struct { const sigset_t *set; size_t size; } six = {&open, 8};
        say(" %s", outcome(syscall(SYS_pselect6, 0, 0, 0, 0, &long_time, &six)));
    }
    say(" after %d", atomic_load(&logged) - before);
    pthread_sigmask(SIG_SETMASK, &old, 0);
    pthread_sigmask(SIG_BLOCK, 0, &workers[self].mask);
}

/* Out of a handler by siglongjmp. */
OP(jump, 6, 0, 8, 2) {
    int sig = common_signals[a[0]];
    if (!handled(sig) || blocked_by(self, sig)) return say(" skipped");
    int before = reactions[sig], r = sigsetjmp(jump, 1);
    if (r == 0) {
        reactions[sig] = JUMP;
        may_jump = 1;
        if (a[1]) {
            struct timespec t = {5, 0};
            syscall(SYS_tgkill, leader, gettid(), sig);
            nanosleep(&t, 0);
        } else {
            raise(sig);
        }
    }
    may_jump = 0;
    level[self] = 0;
    reactions[sig] = before;
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, 0, &now);
    say(" %d mask %lx", r, (long)bits(&now));
    pthread_sigmask(SIG_BLOCK, 0, &workers[self].mask);
}

/* Vector registers live across a handler. */
OP(registers, 4, 0, 8) {
    int sig = common_signals[a[0]];
    if (!handled(sig)) return say(" skipped");
    long changed;
    __asm__ volatile(
        "mov $0x1234567, %%r12; movq %%r12, %%xmm0; movq %%r12, %%xmm7; movq %%r12, %%xmm15; mov %%r12, %%r13\n"
        "sub $128, %%rsp; syscall; add $128, %%rsp\n"
        "xor %%rbx, %%rbx; movq %%xmm0, %%rax; cmp %%rax, %%r12; setne %%bl; movq %%xmm7, %%rax; xor %%ecx, %%ecx; cmp %%rax, %%r12; setne %%cl\n"
        "add %%rcx, %%rbx; movq %%xmm15, %%rax; xor %%ecx, %%ecx; cmp %%rax, %%r12; setne %%cl; add %%rcx, %%rbx; cmp %%r12, %%r13; setne %%cl; add %%rcx, %%rbx\n"
        "mov %%rbx, %0"
        : "=r"(changed)
        : "a"(SYS_tgkill), "D"((long)leader), "S"((long)gettid()), "d"((long)sig)
        : "rbx", "rcx", "r11", "r12", "r13", "xmm0", "xmm7", "xmm15", "memory", "cc");
    say(" changed %ld", changed);
}
