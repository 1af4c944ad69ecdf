/* Threads that nobody sends steps to: how they end, alone and with their whole process. */
#include "core.h"
#include <mqueue.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

extern char **environ;

/* Where such a thread waits; each is a cancellation point. */
enum { READ, SLEEP, PAUSE, SEMAPHORE, CONDITION, POLL, SELECT, EPOLL, ACCEPT, RECEIVE, MESSAGE, QUEUE, SIGWAIT, CHILD, OPEN, JOIN, TEST, KINDS };
static const char *kind_names[] = {"read", "nanosleep", "pause", "sem_wait", "condition", "poll", "select", "epoll_wait", "accept",
                                   "recv", "msgrcv", "mq_receive", "sigwaitinfo", "waitpid", "open", "join", "testcancel"};

static struct member {
    pthread_t handle;
    _Atomic pid_t tid;
    int kind, type, fds[3], id;
    pid_t child;
    mqd_t queue;
    sem_t semaphore;
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    bool has_mutex;
    _Atomic int cleaned;
} members[4];

static void clean_up(void *member) {
    struct member *m = member;
    /* A condition's mutex is locked again before the thread cleans up. */
    m->cleaned += m->kind == CONDITION && pthread_mutex_trylock(&m->mutex) == EBUSY ? 10 : 1;
}

static void *join_forever(void *unused) {
    for (;;) pause();
    return unused;
}

static void wait_somewhere(struct member *m) {
    char bytes[64];
    struct timespec far = {1000, 0};
    sigset_t set;
    switch (m->kind) {
    case READ: case RECEIVE: (void)!read(m->fds[0], bytes, 1); break;
    case SLEEP: nanosleep(&far, 0); break;
    case PAUSE: pause(); break;
    case SEMAPHORE: sem_wait(&m->semaphore); break;
    case CONDITION:
        pthread_mutex_lock(&m->mutex);
        for (;;) pthread_cond_wait(&m->condition, &m->mutex);
    case POLL: poll(&(struct pollfd){m->fds[0], POLLIN, 0}, 1, -1); break;
    case SELECT: {
        fd_set in;
        FD_ZERO(&in);
        FD_SET(m->fds[0], &in);
        select(m->fds[0] + 1, &in, 0, 0, 0);
        break;
    }
    case EPOLL: epoll_wait(m->fds[2], &(struct epoll_event){0}, 1, -1); break;
    case ACCEPT: accept(m->fds[0], 0, 0); break;
    case MESSAGE: msgrcv(m->id, bytes, 8, 0, 0); break;
    case QUEUE: mq_receive(m->queue, bytes, sizeof bytes, 0); break;
    case SIGWAIT:
        sigemptyset(&set);
        sigaddset(&set, WAITED_FOR);
        sigwaitinfo(&set, 0);
        break;
    case CHILD: waitpid(m->child, 0, __WALL); break;
    case OPEN: (void)!open("never-written", O_RDONLY); break;
    case JOIN: {
        pthread_t other;
        if (pthread_create(&other, 0, join_forever, 0) == 0) pthread_join(other, 0);
        break;
    }
    case TEST:
        for (;;) pthread_testcancel();
    }
}

static void *live(void *member) {
    struct member *m = member;
    int old;
    if (m->type == 1) pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    pthread_cleanup_push(clean_up, m);
    m->tid = gettid();
    wait_somewhere(m);
    pthread_cleanup_pop(0);
    return (void *)5;
}

static bool prepare(struct member *m, int kind, int type) {
    memset(m, 0, sizeof *m);
    m->kind = kind, m->type = type;
    for (int i = 0; i < 3; i++) m->fds[i] = -1;
    pthread_mutex_init(&m->mutex, 0);
    pthread_cond_init(&m->condition, 0);
    sem_init(&m->semaphore, 0, 0);
    switch (kind) {
    case READ: case POLL: case SELECT: return pipe(m->fds) == 0;
    case EPOLL: {
        struct epoll_event e = {.events = EPOLLIN};
        if (pipe(m->fds)) return false;
        m->fds[2] = epoll_create1(0);
        return epoll_ctl(m->fds[2], EPOLL_CTL_ADD, m->fds[0], &e) == 0;
    }
    case RECEIVE: return socketpair(AF_UNIX, SOCK_STREAM, 0, m->fds) == 0;
    case ACCEPT: {
        /* Without a name it gets one of its own. */
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        m->fds[0] = socket(AF_UNIX, SOCK_STREAM, 0);
        return bind(m->fds[0], (void *)&address, sizeof(sa_family_t)) == 0 && listen(m->fds[0], 1) == 0;
    }
    case MESSAGE: return (m->id = msgget(IPC_PRIVATE, 0600)) >= 0;
    case QUEUE: {
        char name[32];
        snprintf(name, sizeof name, "/fuzz-g-%d", getpid());
        struct mq_attr attributes = {.mq_maxmsg = 2, .mq_msgsize = 8};
        m->queue = mq_open(name, O_RDWR | O_CREAT, 0600, &attributes);
        return m->queue >= 0 && mq_unlink(name) == 0;
    }
    case CHILD:
        m->child = quiet_fork();
        if (m->child == 0)
            for (;;) pause();
        return true;
    case OPEN: return mkfifo("never-written", 0600) == 0 || errno == EEXIST;
    }
    return true;
}

static void tidy(struct member *m) {
    for (int i = 0; i < 3; i++)
        if (m->fds[i] >= 0) close(m->fds[i]);
    if (m->kind == MESSAGE) msgctl(m->id, IPC_RMID, 0);
    if (m->kind == QUEUE) mq_close(m->queue);
    if (m->kind == OPEN) unlink("never-written");
    if (m->kind == CHILD) kill(m->child, SIGKILL), end_of(m->child);
}

/* With all signals blocked: what comes for the process is for others. */
static bool begin(struct member *m) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int r = pthread_create(&m->handle, 0, live, m);
    pthread_sigmask(SIG_SETMASK, &old, 0);
    if (r) return false;
    while (m->tid == 0) sched_yield();
    for (long until = now_ms() + 3000; m->kind != TEST && thread_state(m->tid) != 'S' && now_ms() < until;) pause_shortly();
    return true;
}

static void await_absence(pid_t tid) {
    for (long until = now_ms() + 3000; thread_state(tid) != '?' && now_ms() < until;) pause_shortly();
}

OP(cancel, 10, NO_VFORK, KINDS, 2) {
    struct member *m = &members[0];
    say(" %s", kind_names[a[0]]);
    /* Where the thread is when it is cancelled at any instruction is up to Linux, but for these; the other stays for ever. */
    int type = a[0] == PAUSE || a[0] == SLEEP || a[0] == READ || a[0] == TEST ? a[1] : 0;
    if (a[0] == JOIN) return say(" skipped");
    if (!prepare(m, a[0], type)) return say(" not prepared %s", error_name(errno));
    void *result = 0;
    if (!begin(m)) return say(" none");
    say(" %d", pthread_cancel(m->handle));
    say(" %d", pthread_join(m->handle, &result));
    await_absence(m->tid);
    say(" %s cleaned %d", result == PTHREAD_CANCELED ? "cancelled" : "returned", m->cleaned);
    if (m->kind == CONDITION) pthread_mutex_unlock(&m->mutex);
    tidy(m);
}

/* A thread ends and leaves a robust mutex locked, which another may be waiting for. */
static pthread_mutex_t left;
static _Atomic int has_locked;
static pid_t leaver;
static int way_out;
static void *lock_and_end(void *unused) {
    leaver = gettid();
    pthread_mutex_lock(&left);
    has_locked = 1;
    syscall(SYS_futex, &has_locked, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
    while (has_locked == 1) syscall(SYS_futex, &has_locked, FUTEX_WAIT_PRIVATE, 1, 0, 0, 0);
    if (way_out == 1) pthread_exit(0);
    return unused;
}
static _Atomic pid_t heir;
static void *inherit(void *unused) {
    (void)unused;
    heir = gettid();
    long r = pthread_mutex_lock(&left);
    if (r == EOWNERDEAD) pthread_mutex_consistent(&left);
    if (r == 0 || r == EOWNERDEAD) pthread_mutex_unlock(&left);
    return (void *)r;
}

OP(leave_locked, 6, NO_VFORK, 2, 2, 2, 2) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    if (a[0]) pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    if (a[1]) pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&left, &attributes);
    sigset_t all, old;
    sigfillset(&all);
    pthread_t owner, next;
    has_locked = 0;
    heir = 0;
    way_out = a[2];
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int r = pthread_create(&owner, 0, lock_and_end, 0);
    while (r == 0 && has_locked == 0) syscall(SYS_futex, &has_locked, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
    if (r == 0 && a[3]) {
        r = pthread_create(&next, 0, inherit, 0);
        while (r == 0 && heir == 0) sched_yield();
        for (long until = now_ms() + 3000; r == 0 && thread_state(heir) != 'S' && now_ms() < until;) pause_shortly();
    }
    pthread_sigmask(SIG_SETMASK, &old, 0);
    say(" %d", r);
    has_locked = 2;
    syscall(SYS_futex, &has_locked, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
    void *result = 0;
    say(" %d", pthread_join(owner, 0));
    await_absence(leaver);
    if (r == 0 && a[3]) {
        say(" %d", pthread_join(next, &result));
        await_absence(heir);
        say(" heir %s", result ? error_name((int)(long)result) : "0");
    }
    r = pthread_mutex_lock(&left);
    say(" %s", r ? error_name(r) : "0");
    if (r == EOWNERDEAD) say(" %d", pthread_mutex_consistent(&left));
    say(" %d", pthread_mutex_unlock(&left));
    pthread_mutex_destroy(&left);
}

/* A process of several threads that ends. */
enum { EXIT, EXIT_OF_ANOTHER, KILL, EXEC, EXEC_OF_ANOTHER, ONE_BY_ONE, DEFAULT_ACTION, FAULT, ABORT, ALARM, BY_PARENT, EXEC_REFUSED, ENDS };
static const char *end_names[] = {"exit", "exit of another", "kill", "exec", "exec of another", "one by one", "default action", "fault",
                                  "abort", "alarm", "by its parent", "exec that is refused"};

static void default_action(int sig) {
    sigset_t set;
    signal(sig, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, sig);
    pthread_sigmask(SIG_UNBLOCK, &set, 0);
}

static void __attribute__((noreturn)) end_process(int how) {
    char *args[] = {"true", 0};
    struct itimerval soon = {{0, 0}, {0, 1000}};
    switch (how) {
    case EXIT: case EXIT_OF_ANOTHER: _exit(33 + how);
    case KILL: kill(getpid(), SIGKILL); break;
    case EXEC_REFUSED: execve("/nonexistent/x", args, environ); _exit(errno == ENOENT ? 44 : 45);
    case EXEC: case EXEC_OF_ANOTHER: execve("/bin/true", args, environ); break;
    case ONE_BY_ONE: syscall(SYS_exit, 21); break;
    case DEFAULT_ACTION: default_action(SIGUSR2), syscall(SYS_tgkill, getpid(), gettid(), SIGUSR2); break;
    case FAULT: default_action(SIGSEGV), *(volatile int *)8 = 1; break;
    case ABORT: default_action(SIGABRT), abort();
    case ALARM: default_action(SIGALRM), setitimer(ITIMER_REAL, &soon, 0); break;
    }
    for (;;) pause();
}

static int ending;
static void *end_in_thread(void *unused) {
    end_process(ending);
    return unused;
}
/* The last one to end, whose status is nobody's. */
static void *end_last(void *main_thread) {
    await_absence(*(pid_t *)main_thread);
    for (long until = now_ms() + 3000; thread_state(*(pid_t *)main_thread) != 'Z' && now_ms() < until;) pause_shortly();
    syscall(SYS_exit, 22);
    return 0;
}

static void crowd(int how, int count, int kind, int ready) {
    /* One by one they can only end if the others do not wait. */
    if (how == ONE_BY_ONE) count = 0;
    for (int i = 0; i < count; i++)
        if (!prepare(&members[i], (kind + i * 5) % KINDS, 0) || !begin(&members[i])) _exit(90);
    if (write(ready, "x", 1) != 1) _exit(91);
    pthread_t another;
    ending = how;
    static pid_t main_thread;
    main_thread = getpid();
    switch (how) {
    case ONE_BY_ONE:
        if (pthread_create(&another, 0, end_last, &main_thread)) _exit(92);
        end_process(how);
    case EXIT_OF_ANOTHER: case EXEC_OF_ANOTHER: case FAULT:
        if (pthread_create(&another, 0, end_in_thread, 0)) _exit(92);
        for (;;) pause();
    default: end_process(how);
    }
}

OP(end_of_many, 10, NO_VFORK, ENDS, 4, KINDS) {
    int ends[2], before = atomic_load(&logged);
    char byte;
    /* What executes a program sends SIGCHLD at its end, however it was made. */
    bool sends = a[0] == EXEC || a[0] == EXEC_OF_ANOTHER;
    say(" %s", end_names[a[0]]);
    if ((sends && goes_astray(self, SIGCHLD)) || pipe(ends)) return say(" none");
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pid_t pid = quiet_fork();
    if (pid == 0) {
        after_fork();
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, 0);
        close(ends[0]);
        crowd(a[0], a[1], a[2], ends[1]);
    }
    pthread_sigmask(SIG_SETMASK, &old, 0);
    close(ends[1]);
    ssize_t n;
    while ((n = read(ends[0], &byte, 1)) < 0 && errno == EINTR) {}
    say(" ready %ld", (long)n);
    if (a[0] == BY_PARENT) say(" %s", outcome(kill(pid, SIGKILL)));
    say(" status %x", end_of(pid));
    if (sends && handled(SIGCHLD) && deliverable(SIGCHLD)) {
        hide_taker = true;
        await_end_signal(before);
    }
    close(ends[0]);
    unlink("never-written");
}
