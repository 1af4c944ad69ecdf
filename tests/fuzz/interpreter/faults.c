/* Faults of the program itself: what the handler is told, and that the thread goes on as the handler says. */
#include "core.h"
#include <sys/prctl.h>

enum {
    READ_NULL, WRITE_NULL, READ_GUARD, WRITE_GUARD, WRITE_CODE, NOT_CANONICAL, EXECUTE_DATA, BEYOND_FILE, DIVIDE, OVERFLOW,
    UNDEFINED, BREAKPOINT, PRIVILEGED, MISALIGNED, SSE_DIVIDE, X87_DIVIDE, STACK_OVERFLOW, CALL_NULL, INT_OTHER, KINDS
};
static const char *kind_names[] = {
    "read null", "write null", "read guard", "write guard", "write code", "not canonical", "execute data", "beyond file", "divide", "overflow",
    "undefined", "breakpoint", "privileged", "misaligned", "sse divide", "x87 divide", "stack overflow", "call null", "int 0x80 bad",
};
static const int signals[] = {
    SIGSEGV, SIGSEGV, SIGSEGV, SIGSEGV, SIGSEGV, SIGSEGV, SIGSEGV, SIGBUS, SIGFPE, SIGFPE,
    SIGILL, SIGTRAP, SIGSEGV, SIGBUS, SIGFPE, SIGFPE, SIGSEGV, SIGSEGV, SIGSEGV,
};

static __thread sigjmp_buf back;
static __thread struct { int sig, code; long trap, error, flags, own_flags, address, cr2; bool other_stack; } seen;
static __thread char *place;
static __thread char fault_stack[65536] __attribute__((aligned(64)));
static __thread volatile int steps_left, steps_done;

/* Relative to the place where the fault was meant to be. */
static long relative(long address) {
    long far = address - (long)place;
    if (address == 0) return 0;
    return far >= -8192 && far <= 8192 ? 100000 + far : 1;
}

static void handler(int sig, siginfo_t *info, void *context) {
    ucontext_t *uc = context;
    uint64_t flags;
    /* With AC set, as the fault left it, the C library could not be used. */
    __asm__ volatile("pushfq; pop %0; pushfq; andq $~0x40000, (%%rsp); popfq" : "=r"(flags)::"cc");
    seen.sig = sig, seen.code = info->si_code;
    seen.trap = uc->uc_mcontext.gregs[REG_TRAPNO];
    seen.error = uc->uc_mcontext.gregs[REG_ERR];
    seen.cr2 = uc->uc_mcontext.gregs[REG_CR2];
    seen.flags = uc->uc_mcontext.gregs[REG_EFL] & 0x40500; /* AC, DF, TF */
    seen.own_flags = flags & 0x40500;
    seen.address = relative((long)info->si_addr);
    char *frame = __builtin_frame_address(0);
    seen.other_stack = frame >= fault_stack && frame < fault_stack + sizeof fault_stack;
    siglongjmp(back, 1);
}

static void __attribute__((noinline)) descend(int depth) {
    volatile char page[4096];
    page[0] = depth;
    if (depth < 1000000000) descend(depth + 1);
    page[1] = page[0];
}

static void commit(int kind, long bits) {
    /* Flags that a program may have set at any instruction. */
    if (bits) __asm__ volatile("pushfq; orq %0, (%%rsp); popfq" ::"r"(bits) : "memory", "cc");
    volatile double zero = 0, one = 1;
    volatile int nought = 0, least = INT32_MIN, minus = -1;
    unsigned csr = 0x1f80 & ~(1 << 9);
    unsigned short word = 0x37f & ~4;
    switch (kind) {
    case READ_NULL: (void)*(volatile int *)0; break;
    case WRITE_NULL: *(volatile int *)0 = 1; break;
    case READ_GUARD: (void)*(volatile char *)place; break;
    case WRITE_GUARD: *(volatile char *)place = 1; break;
    case WRITE_CODE: *(volatile char *)place = 1; break;
    case NOT_CANONICAL: *(volatile char *)0x8000000000000000 = 1; break;
    case EXECUTE_DATA: case CALL_NULL: ((void (*)(void))(kind == CALL_NULL ? 0 : place))(); break;
    case BEYOND_FILE: (void)*(volatile char *)place; break;
    case DIVIDE: nought = least / nought; break;
    case OVERFLOW: nought = least / minus; break;
    case UNDEFINED: __asm__ volatile("ud2"); break;
    case BREAKPOINT: __asm__ volatile("int3"); break;
    case PRIVILEGED: __asm__ volatile("hlt"); break;
    case MISALIGNED: __asm__ volatile("pushfq; orq $0x40000, (%%rsp); popfq; movl 1(%0), %%eax" ::"r"(place) : "rax", "memory", "cc"); break;
    case SSE_DIVIDE: __asm__ volatile("ldmxcsr %0" ::"m"(csr)); one = one / zero; break;
    case X87_DIVIDE: __asm__ volatile("fldcw %0; fld1; fldz; fdivrp; fwait" ::"m"(word)); break;
    case STACK_OVERFLOW: descend(0); break;
    case INT_OTHER: __asm__ volatile("int $0x81"); break;
    }
}

/* The place where this kind faults. */
static char *prepare(int kind) {
    char *pages = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (kind == READ_GUARD || kind == WRITE_GUARD) mprotect(pages + 4096, 4096, PROT_NONE);
    if (kind == WRITE_CODE) mprotect(pages + 4096, 4096, PROT_READ | PROT_EXEC);
    if (kind == BEYOND_FILE) {
        int fd = memfd_create("short", 0);
        mmap(pages, 3 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
        close(fd);
    }
    return pages;
}

/* With an action of this thread's own. In a child the fault may find the signal blocked, ignored or unhandled: it ends it. */
OP(fault, 26, 0, KINDS, 4, 8, 4) {
    int kind = a[0], sig = signals[kind];
    char *pages = prepare(kind);
    place = pages + 4096;
    stack_t stack = {.ss_sp = fault_stack, .ss_size = sizeof fault_stack}, old_stack;
    bool needs_stack = kind == STACK_OVERFLOW || a[1] & 1;
    say(" %s", kind_names[kind]);
    /* Without a guard a stack runs over into whatever Linux has put below it. */
    if (kind == STACK_OVERFLOW && (self == 0 || !workers[self].guarded)) return say(" skipped");
    if (needs_stack) sigaltstack(&stack, &old_stack);
    struct sigaction act = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | (needs_stack ? SA_ONSTACK : 0) | (a[1] & 2 ? SA_NODEFER : 0)}, before;
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, sig);
    pthread_sigmask(SIG_BLOCK, 0, &old);
    if (depth > 0 && a[2] == 7) pthread_sigmask(SIG_BLOCK, &set, 0);
    else pthread_sigmask(SIG_UNBLOCK, &set, 0);
    if (depth > 0 && a[2] == 6) act.sa_handler = SIG_IGN, act.sa_flags = 0;
    if (depth > 0 && a[2] == 5) act.sa_handler = SIG_DFL, act.sa_flags = 0;
    if (depth > 0 && a[2] >= 5 && in_vfork) return say(" skipped");
    if (depth > 0 && a[2] >= 5) end_line(), begin_line("ends", 0, 0);
    sigaction(sig, &act, &before);
    static const long flags[] = {0, 0x400, 0x40000, 0x40400};
    memset(&seen, 0, sizeof seen);
    if (sigsetjmp(back, 1) == 0) commit(kind, flags[a[3]]);
    unsigned csr = 0x1f80;
    __asm__ volatile("pushfq; andq $~0x40500, (%%rsp); popfq; ldmxcsr %0; fninit" ::"m"(csr) : "memory", "cc");
    sigaction(sig, &before, 0);
    if (needs_stack) sigaltstack(&old_stack, 0);
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, &old, &now);
    munmap(pages, 3 * 4096);
    if (kind == STACK_OVERFLOW) seen.cr2 = seen.address = 0, seen.error &= ~1;
    bool has_cr2 = seen.trap == 14;
    say(" %s code %d trap %ld error %lx at %ld cr2 %d flags %lx own %lx stack %d", signal_name(seen.sig), seen.code, seen.trap, seen.error,
        seen.address, has_cr2 && kind != STACK_OVERFLOW ? relative(seen.cr2) == seen.address : -1, seen.flags, seen.own_flags, seen.other_stack);
}

/* Fixed by the handler: the instruction is repeated. */
static void mend(int sig, siginfo_t *info, void *context) {
    (void)sig, (void)context;
    mprotect((void *)((long)info->si_addr & -4096), 4096, PROT_READ | PROT_WRITE);
    steps_done++;
}

OP(mended_fault, 6, 0, 6) {
    struct sigaction act = {.sa_sigaction = mend, .sa_flags = SA_SIGINFO}, before;
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    pthread_sigmask(SIG_UNBLOCK, &set, &old);
    sigaction(SIGSEGV, &act, &before);
    steps_done = 0;
    long pages = a[0] + 1;
    char *area = mmap(0, pages * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | (a[0] & 1 ? MAP_STACK : 0), -1, 0);
    for (long i = 0; i < pages; i++) area[i * 4096] = i;
    long sum = 0;
    for (long i = 0; i < pages; i++) sum += area[i * 4096];
    sigaction(SIGSEGV, &before, 0);
    pthread_sigmask(SIG_SETMASK, &old, 0);
    munmap(area, pages * 4096);
    say(" faults %d sum %ld", steps_done, sum);
}

static void step_handler(int sig, siginfo_t *info, void *context) {
    (void)sig, (void)info;
    ucontext_t *uc = context;
    steps_done++;
    if (--steps_left <= 0) uc->uc_mcontext.gregs[REG_EFL] &= ~0x100L;
}

/* One trap for each instruction, over a system call as well. */
OP(single_step, 4, NO_VFORK, 20, 2) {
    struct sigaction act = {.sa_sigaction = step_handler, .sa_flags = SA_SIGINFO}, before;
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGTRAP);
    pthread_sigmask(SIG_UNBLOCK, &set, &old);
    sigaction(SIGTRAP, &act, &before);
    steps_left = a[0] + 1, steps_done = 0;
    long x = 0, nr = a[1] ? SYS_getppid : SYS_gettid;
    __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq\n"
                     "nop; inc %0; inc %0; mov %1, %%rax; syscall; inc %0; nop; nop; nop; nop; nop; nop; nop; nop; nop\n"
                     "pushfq; andq $~0x100, (%%rsp); popfq"
                     : "+r"(x)
                     : "r"(nr)
                     : "rax", "rcx", "r11", "memory", "cc");
    sigaction(SIGTRAP, &before, 0);
    pthread_sigmask(SIG_SETMASK, &old, 0);
    say(" traps %d x %ld", steps_done, x);
}

/* Flags that are set while a system call, a switch or a tick finds the thread. */
OP(flags_kept, 3, 0, 3, 2) {
    static const long flags[] = {0x40000, 0x400, 0x40400};
    long bits = flags[a[0]], after;
    if (a[1]) {
        __asm__ volatile("pushfq; orq %1, (%%rsp); popfq; mov %2, %%rax; syscall; pushfq; pop %0; pushfq; andq $~0x40400, (%%rsp); popfq"
                         : "=&r"(after) : "r"(bits), "i"(SYS_sched_yield) : "rax", "rcx", "r11", "memory", "cc");
    } else {
        __asm__ volatile("pushfq; orq %1, (%%rsp); popfq; mov $6000000, %%rax; 1: dec %%rax; jnz 1b; pushfq; pop %0; pushfq; andq $~0x40400, (%%rsp); popfq"
                         : "=&r"(after) : "r"(bits) : "rax", "rcx", "r11", "memory", "cc");
    }
    say(" %lx", after & 0x40400);
}

/* The time-stamp counter as the program wishes. */
OP(tsc, 2, NO_VFORK, 2) {
    /* That the instruction is forbidden is in CAVEATS. */
    if (depth == 0 || a[0]) return say(" skipped");
    say(" %s", outcome(prctl(PR_SET_TSC, a[0] ? PR_TSC_SIGSEGV : PR_TSC_ENABLE)));
    int mode = 0;
    prctl(PR_GET_TSC, &mode);
    say(" mode %d", mode);
    sched_yield();
    say(" alive");
    prctl(PR_SET_TSC, PR_TSC_ENABLE);
}
