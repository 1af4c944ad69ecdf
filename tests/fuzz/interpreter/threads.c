/* Workers: their life, and calls in which they wait while others do things. */
#include "core.h"
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>

void *work(void *argument);
void finish_workers(void);
void wait_as_told(void);
void release_from_channel(int slot);

bool begin_worker(int slot, size_t stack, size_t guard) {
    struct worker *w = &workers[slot];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (stack) pthread_attr_setstacksize(&attributes, stack);
    pthread_attr_setguardsize(&attributes, guard);
    memset(w, 0, sizeof *w);
    w->guarded = guard > 0;
    pthread_sigmask(SIG_BLOCK, 0, &w->mask);
    int r = pthread_create(&w->handle, &attributes, work, (void *)(long)slot);
    say(" %s", r ? error_name(r) : "0");
    if (r) return false;
    while (*(volatile pid_t *)&w->tid == 0) sched_yield();
    w->state = IDLE;
    return true;
}

OP(spawn, 24, TOP_ONLY | MAIN_ONLY, WORKERS, 4, 4) {
    static const size_t sizes[] = {0, 65536, 262144, 1 << 20}, guards[] = {4096, 0, 65536, 1};
    if (a[0] == 0 || workers[a[0]].state != ABSENT) return say(" skipped");
    begin_worker(a[0], sizes[a[1]], guards[a[2]]);
}

static void release(int slot);

static void end_worker(int slot) {
    struct worker *w = &workers[slot];
    if (w->state == WAITING) release(slot);
    if (w->state == SHARING) release_from_channel(slot);
    void *result = 0;
    atomic_store(&w->command, 2);
    syscall(SYS_futex, &w->command, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
    int r = pthread_join(w->handle, &result);
    say(" joined %d %ld", r, (long)result);
    /* It is joined a moment before it is gone. */
    for (long until = now_ms() + 3000; thread_state(w->tid) != '?' && now_ms() < until;) pause_shortly();
    w->state = ABSENT;
}

OP(join, 5, TOP_ONLY | MAIN_ONLY, WORKERS) {
    if (a[0] == 0 || workers[a[0]].state == ABSENT) return say(" skipped");
    end_worker(a[0]);
}

void finish_workers(void) {
    for (int i = 1; i < WORKERS; i++) {
        if (workers[i].state == ABSENT) continue;
        begin_line("end", 0, 0);
        say(" worker %d", i);
        end_worker(i);
        tell_events();
        end_line();
    }
}

/* Calls that wait, each for something of its own, and what ends each of them. */
enum {
    FUTEX, FUTEX_SHARED, FUTEX_WITH_TIMEOUT, FUTEX_BITS, FUTEX_VECTOR, FUTEX_VECTOR_MIXED, FUTEX_PI, FUTEX_REQUEUED,
    FUTEX_LIKE_LOCK, READ_PIPE, READ_SOCKET, RECEIVE_TIMED, RECEIVE_MESSAGE, POLL, PPOLL, SELECT, PSELECT, EPOLL, EPOLL2,
    ACCEPT, SEMAPHORE, MUTEX, CONDITION, SLEEP, SLEEP_UNTIL, PAUSE, SIGWAIT, SIGTIMED, MESSAGE_QUEUE, SYSV_SEMAPHORE,
    CHILD, FLOCK, WRITE_PIPE, POSIX_QUEUE, EVENT, TIMER, SIGNAL_FD, INOTIFY, SEND_FILE, SEND_TIMED, SPLICE, READ_VECTOR,
    WAIT_ID, RW_LOCK, BARRIER, OPEN_FIFO, SEMAPHORE_TIMED, POLL_NOTHING, KINDS
};
static const char *kind_names[] = {
    "futex", "futex shared", "futex with timeout", "futex bits", "futex_waitv", "futex_waitv mixed", "futex pi", "futex requeued",
    "futex like a lock", "read pipe", "read socket", "recv with SO_RCVTIMEO", "recvmsg", "poll", "ppoll", "select", "pselect", "epoll_wait", "epoll_pwait2",
    "accept", "sem_wait", "mutex", "condition", "nanosleep", "clock_nanosleep abs", "pause", "sigwaitinfo", "sigtimedwait", "msgrcv", "semop",
    "waitpid", "flock", "write pipe", "mq_receive", "eventfd", "timerfd", "signalfd", "inotify", "sendfile", "send with SO_SNDTIMEO", "splice", "readv",
    "waitid", "rwlock", "barrier", "open fifo", "sem_timedwait", "poll nothing",
};

bool reads_signals(int slot) { return workers[slot].state == WAITING && workers[slot].kind == SIGNAL_FD; }

/* What a waiting worker waits for. */
static struct object {
    _Atomic uint32_t *word;
    uint32_t other;
    uint32_t expected;
    int fds[4], id;
    pid_t child;
    sem_t semaphore;
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    pthread_rwlock_t rwlock;
    pthread_barrier_t barrier;
    int ready;
    mqd_t queue;
    char name[32];
} objects[WORKERS];

static const struct timespec far = {1000, 0};

static void fill(int fd) {
    static char page[4096];
    int flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    while (write(fd, page, sizeof page) > 0) {}
    while (write(fd, page, 1) > 0) {}
    fcntl(fd, F_SETFL, flags);
}

static void set_timeout(int fd, int option) {
    struct timeval t = {1000, 0};
    setsockopt(fd, SOL_SOCKET, option, &t, sizeof t);
}

/* By the thread that reads the program, before the worker waits. */
static int prepare(int slot, int kind) {
    struct object *o = &objects[slot];
    memset(o, 0, sizeof *o);
    for (int i = 0; i < 4; i++) o->fds[i] = -1;
    snprintf(o->name, sizeof o->name, "/fuzz-%d-%d", leader, slot);
    o->word = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    switch (kind) {
    case FUTEX_LIKE_LOCK: *o->word = o->expected = 0x80000000u | 0x400001; return 0;
    case FUTEX_PI: *o->word = gettid(); return 0;
    case READ_PIPE: case SPLICE: case READ_VECTOR: case WRITE_PIPE: case POLL: case PPOLL: case SELECT: case PSELECT:
        if (pipe(o->fds)) return -1;
        if (kind == SPLICE) return pipe(o->fds + 2);
        if (kind == WRITE_PIPE) fill(o->fds[1]);
        return 0;
    case EPOLL: case EPOLL2: {
        struct epoll_event e = {.events = EPOLLIN, .data.u32 = 7};
        if (pipe(o->fds)) return -1;
        o->fds[2] = epoll_create1(0);
        return epoll_ctl(o->fds[2], EPOLL_CTL_ADD, o->fds[0], &e);
    }
    case READ_SOCKET: case RECEIVE_TIMED: case RECEIVE_MESSAGE: case SEND_FILE: case SEND_TIMED:
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, o->fds)) return -1;
        if (kind == RECEIVE_TIMED) set_timeout(o->fds[0], SO_RCVTIMEO);
        if (kind == SEND_FILE || kind == SEND_TIMED) set_timeout(o->fds[1], SO_SNDTIMEO), fill(o->fds[1]);
        if (kind == SEND_FILE) o->fds[2] = open("/proc/self/exe", O_RDONLY);
        return 0;
    case ACCEPT: {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        o->fds[0] = socket(AF_UNIX, SOCK_STREAM, 0);
        snprintf(address.sun_path + 1, 40, "%s", o->name);
        if (bind(o->fds[0], (void *)&address, sizeof address)) return -1;
        return listen(o->fds[0], 4);
    }
    case SEMAPHORE: case SEMAPHORE_TIMED: return sem_init(&o->semaphore, 0, 0);
    case MUTEX: pthread_mutex_init(&o->mutex, 0); return pthread_mutex_lock(&o->mutex);
    case CONDITION: pthread_mutex_init(&o->mutex, 0); return pthread_cond_init(&o->condition, 0);
    case RW_LOCK: pthread_rwlock_init(&o->rwlock, 0); return pthread_rwlock_wrlock(&o->rwlock);
    case BARRIER: return pthread_barrier_init(&o->barrier, 0, 2);
    case MESSAGE_QUEUE: return (o->id = msgget(IPC_PRIVATE, 0600)) < 0 ? -1 : 0;
    case SYSV_SEMAPHORE: return (o->id = semget(IPC_PRIVATE, 1, 0600)) < 0 ? -1 : 0;
    case FLOCK: {
        snprintf(o->name, sizeof o->name, "flock-%d", slot);
        o->fds[0] = open(o->name, O_RDWR | O_CREAT, 0600);
        o->fds[1] = open(o->name, O_RDWR);
        return flock(o->fds[1], LOCK_EX);
    }
    case OPEN_FIFO:
        snprintf(o->name, sizeof o->name, "fifo-%d", slot);
        unlink(o->name);
        return mkfifo(o->name, 0600);
    case POSIX_QUEUE: {
        struct mq_attr attributes = {.mq_maxmsg = 2, .mq_msgsize = 8};
        o->queue = mq_open(o->name, O_RDWR | O_CREAT, 0600, &attributes);
        return o->queue < 0 ? -1 : mq_unlink(o->name);
    }
    case EVENT: return (o->fds[0] = eventfd(0, 0)) < 0 ? -1 : 0;
    case TIMER: {
        struct itimerspec spec = {{0, 0}, far};
        o->fds[0] = timerfd_create(CLOCK_MONOTONIC, 0);
        return timerfd_settime(o->fds[0], 0, &spec, 0);
    }
    case INOTIFY:
        o->fds[0] = inotify_init();
        snprintf(o->name, sizeof o->name, "watch-%d", slot);
        mkdir(o->name, 0700);
        return inotify_add_watch(o->fds[0], o->name, IN_CREATE) < 0 ? -1 : 0;
    }
    return 0;
}

struct waiter { uint64_t value, address; uint32_t flags, reserved; };

/* By the worker. */
static long wait_for(struct object *o, int kind) {
    char bytes[64] = {0};
    struct timespec t = far;
    fd_set set;
    struct iovec part = {bytes, sizeof bytes};
    switch (kind) {
    case FUTEX: return syscall(SYS_futex, o->word, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
    case FUTEX_SHARED: return syscall(SYS_futex, o->word, FUTEX_WAIT, 0, 0, 0, 0);
    case FUTEX_LIKE_LOCK: return syscall(SYS_futex, o->word, FUTEX_WAIT_BITSET, o->expected, 0, 0, 4);
    case FUTEX_WITH_TIMEOUT: return syscall(SYS_futex, o->word, FUTEX_WAIT_PRIVATE, 0, &far, 0, 0);
    case FUTEX_BITS: return syscall(SYS_futex, o->word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 0, 0, 0, 6);
    case FUTEX_VECTOR: case FUTEX_VECTOR_MIXED: {
        struct waiter waiters[2] = {{0, (uintptr_t)&o->other, 2 | 128, 0}, {0, (uintptr_t)o->word, kind == FUTEX_VECTOR ? 2 | 128 : 2, 0}};
        return syscall(SYS_futex_waitv, waiters, 2, 0, 0, 0);
    }
    case FUTEX_PI: {
        long r = syscall(SYS_futex, o->word, FUTEX_LOCK_PI, 0, 0, 0, 0);
        return r;
    }
    case FUTEX_REQUEUED: return syscall(SYS_futex, &o->other, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
    case READ_PIPE: case EVENT: case TIMER: case READ_SOCKET: case INOTIFY: {
        long r = read(o->fds[0], bytes, sizeof bytes);
        return kind == INOTIFY && r > 0 ? 1 : r;
    }
    case READ_VECTOR: return readv(o->fds[0], &part, 1);
    case SPLICE: return splice(o->fds[0], 0, o->fds[3], 0, 10, 0);
    case WRITE_PIPE: case SEND_TIMED: return write(o->fds[1], bytes, 1);
    case SEND_FILE: return sendfile(o->fds[1], o->fds[2], 0, 10);
    case RECEIVE_TIMED: return recv(o->fds[0], bytes, sizeof bytes, 0);
    case RECEIVE_MESSAGE: {
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        return recvmsg(o->fds[0], &message, 0);
    }
    case POLL: case PPOLL: {
        struct pollfd p = {o->fds[0], POLLIN, 0x55};
        long r = kind == POLL ? poll(&p, 1, 1000000) : ppoll(&p, 1, &t, 0);
        return r < 0 ? r : r * 100 + p.revents;
    }
    case POLL_NOTHING: return poll(0, 0, 1000000);
    case SELECT: case PSELECT: {
        FD_ZERO(&set);
        FD_SET(o->fds[0], &set);
        struct timeval v = {1000, 0};
        long r = kind == SELECT ? select(o->fds[0] + 1, &set, 0, 0, &v) : pselect(o->fds[0] + 1, &set, 0, 0, &t, 0);
        return r < 0 ? r : r * 100 + FD_ISSET(o->fds[0], &set);
    }
    case EPOLL: case EPOLL2: {
        struct epoll_event e = {0};
        long r = kind == EPOLL ? epoll_wait(o->fds[2], &e, 1, -1) : epoll_pwait2(o->fds[2], &e, 1, &t, 0);
        return r < 0 ? r : r * 100 + e.data.u32;
    }
    case ACCEPT: {
        int fd = accept(o->fds[0], 0, 0);
        if (fd >= 0) close(fd);
        return fd < 0 ? -1 : 1;
    }
    case SEMAPHORE: return sem_wait(&o->semaphore);
    case SEMAPHORE_TIMED: clock_gettime(CLOCK_REALTIME, &t); t.tv_sec += 1000; return sem_timedwait(&o->semaphore, &t);
    case MUTEX: {
        int r = pthread_mutex_lock(&o->mutex);
        pthread_mutex_unlock(&o->mutex);
        return r;
    }
    case CONDITION:
        pthread_mutex_lock(&o->mutex);
        while (!o->ready) pthread_cond_wait(&o->condition, &o->mutex);
        pthread_mutex_unlock(&o->mutex);
        return 0;
    case RW_LOCK: {
        int r = pthread_rwlock_rdlock(&o->rwlock);
        pthread_rwlock_unlock(&o->rwlock);
        return r;
    }
    case BARRIER: pthread_barrier_wait(&o->barrier); return 0;
    case SLEEP: {
        struct timespec left;
        long r = nanosleep(&t, &left);
        return r < 0 && errno == EINTR && left.tv_sec < 900 ? -2 : r;
    }
    case SLEEP_UNTIL: {
        clock_gettime(CLOCK_MONOTONIC, &t);
        t.tv_sec += 1000;
        int r = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, 0);
        errno = r;
        return r ? -1 : 0;
    }
    case PAUSE: return pause();
    case SIGWAIT: case SIGTIMED: case SIGNAL_FD: {
        sigset_t wanted, old;
        sigemptyset(&wanted);
        sigaddset(&wanted, WAITED_FOR);
        pthread_sigmask(SIG_BLOCK, &wanted, &old);
        long r;
        if (kind == SIGNAL_FD) {
            struct signalfd_siginfo info;
            int fd = signalfd(-1, &wanted, 0);
            r = read(fd, &info, sizeof info);
            if (r > 0) r = info.ssi_signo;
            close(fd);
        } else {
            r = kind == SIGWAIT ? sigwaitinfo(&wanted, 0) : sigtimedwait(&wanted, 0, &far);
        }
        int error = errno;
        pthread_sigmask(SIG_SETMASK, &old, 0);
        errno = error;
        return r;
    }
    case MESSAGE_QUEUE: {
        struct { long type; char text[8]; } message;
        return msgrcv(o->id, &message, 8, 0, 0);
    }
    case SYSV_SEMAPHORE: {
        struct sembuf down = {0, -1, 0};
        return semop(o->id, &down, 1);
    }
    case CHILD: case WAIT_ID: {
        int status = 0;
        siginfo_t info = {0};
        long r = kind == CHILD ? waitpid(o->child, &status, __WALL) : waitid(P_PID, o->child, &info, WEXITED | __WALL);
        return r < 0 ? r : status + info.si_status;
    }
    case FLOCK: return flock(o->fds[0], LOCK_EX);
    case OPEN_FIFO: {
        int fd = open(o->name, O_RDONLY);
        if (fd >= 0) close(fd);
        return fd < 0 ? -1 : 1;
    }
    case POSIX_QUEUE: return mq_receive(o->queue, bytes, sizeof bytes, 0);
    }
    return 0;
}

/* By another thread: ends the wait for good. */
static void give(int slot, int kind) {
    struct object *o = &objects[slot];
    struct worker *w = &workers[slot];
    long r = 0;
    char bytes[4096];
    switch (kind) {
    case FUTEX: case FUTEX_WITH_TIMEOUT: case FUTEX_VECTOR: *o->word = 1; r = syscall(SYS_futex, o->word, FUTEX_WAKE_PRIVATE, 5, 0, 0, 0); break;
    case FUTEX_SHARED: case FUTEX_VECTOR_MIXED: *o->word = 1; r = syscall(SYS_futex, o->word, FUTEX_WAKE, 5, 0, 0, 0); break;
    case FUTEX_BITS:
        r = syscall(SYS_futex, o->word, FUTEX_WAKE_BITSET | FUTEX_PRIVATE_FLAG, 5, 0, 0, 8);
        say(" others %ld", r);
        r = syscall(SYS_futex, o->word, FUTEX_WAKE_BITSET | FUTEX_PRIVATE_FLAG, 5, 0, 0, 2);
        break;
    case FUTEX_LIKE_LOCK:
        say(" kept %d", *o->word == o->expected);
        r = syscall(SYS_futex, o->word, FUTEX_WAKE_BITSET, 5, 0, 0, 8);
        say(" others %ld", r);
        r = syscall(SYS_futex, o->word, FUTEX_WAKE_BITSET, 5, 0, 0, 4);
        break;
    case FUTEX_PI: r = syscall(SYS_futex, o->word, FUTEX_UNLOCK_PI, 0, 0, 0, 0); break;
    case FUTEX_REQUEUED:
        r = syscall(SYS_futex, &o->other, FUTEX_CMP_REQUEUE_PRIVATE, 0, 5, o->word, 0);
        say(" moved %ld", r);
        r = syscall(SYS_futex, o->word, FUTEX_WAKE_PRIVATE, 5, 0, 0, 0);
        break;
    case READ_PIPE: case SPLICE: case READ_VECTOR: case POLL: case PPOLL: case SELECT: case PSELECT: case EPOLL: case EPOLL2:
    case READ_SOCKET: case RECEIVE_TIMED: case RECEIVE_MESSAGE: r = write(o->fds[1], "x", 1); break;
    case WRITE_PIPE: case SEND_FILE: case SEND_TIMED:
        r = 0;
        fcntl(o->fds[0], F_SETFL, O_NONBLOCK);
        while (read(o->fds[0], bytes, sizeof bytes) > 0) {}
        break;
    case ACCEPT: {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        snprintf(address.sun_path + 1, 40, "%s", o->name);
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        r = connect(fd, (void *)&address, sizeof address);
        close(fd);
        break;
    }
    case SEMAPHORE: case SEMAPHORE_TIMED: r = sem_post(&o->semaphore); break;
    case MUTEX: r = pthread_mutex_unlock(&o->mutex); break;
    case CONDITION:
        pthread_mutex_lock(&o->mutex);
        o->ready = 1;
        pthread_cond_broadcast(&o->condition);
        pthread_mutex_unlock(&o->mutex);
        break;
    case RW_LOCK: r = pthread_rwlock_unlock(&o->rwlock); break;
    case BARRIER: pthread_barrier_wait(&o->barrier); break;
    case SIGWAIT: case SIGTIMED: case SIGNAL_FD: r = syscall(SYS_tgkill, leader, w->tid, WAITED_FOR); break;
    case MESSAGE_QUEUE: {
        struct { long type; char text[8]; } message = {1, "1234567"};
        r = msgsnd(o->id, &message, 8, 0);
        break;
    }
    case SYSV_SEMAPHORE: {
        struct sembuf up = {0, 1, 0};
        r = semop(o->id, &up, 1);
        break;
    }
    case CHILD: case WAIT_ID: r = write(o->fds[1], "x", 1); break;
    case FLOCK: r = flock(o->fds[1], LOCK_UN); break;
    case OPEN_FIFO: r = open(o->name, O_WRONLY | O_NONBLOCK); o->fds[0] = r; r = r < 0; break;
    case POSIX_QUEUE: r = mq_send(o->queue, "1234567", 8, 0); break;
    case EVENT: { uint64_t one = 1; r = write(o->fds[0], &one, 8); break; }
    case TIMER: {
        struct itimerspec now = {{0, 0}, {0, 1}};
        r = timerfd_settime(o->fds[0], 0, &now, 0);
        break;
    }
    case INOTIFY: {
        char file[64];
        snprintf(file, sizeof file, "%s/f", o->name);
        close(open(file, O_CREAT | O_RDWR, 0600));
        unlink(file);
        break;
    }
    case SLEEP: case SLEEP_UNTIL: case PAUSE: case POLL_NOTHING: {
        /* Nothing but a signal ends these. */
        int before = atomic_load(&logged);
        syscall(SYS_tgkill, leader, w->tid, 60);
        await_events(before + 1);
    }
    }
    say(" given %s", outcome(r));
}

static void clean(int slot, int kind) {
    struct object *o = &objects[slot];
    for (int i = 0; i < 4; i++)
        if (o->fds[i] >= 0) close(o->fds[i]);
    munmap((void *)o->word, 4096);
    if (kind == MESSAGE_QUEUE) msgctl(o->id, IPC_RMID, 0);
    if (kind == SYSV_SEMAPHORE) semctl(o->id, 0, IPC_RMID);
    if (kind == POSIX_QUEUE) mq_close(o->queue);
    if (kind == FLOCK || kind == OPEN_FIFO) unlink(o->name);
    if (kind == INOTIFY) rmdir(o->name);
}

static void tell_wait(int slot) {
    struct worker *w = &workers[slot];
    errno = w->error;
    say(" %s", outcome(w->result));
    if (w->kind == FUTEX_PI && w->result == 0) say(" owner %d", (*objects[slot].word & 0x3fffffff) == (uint32_t)w->tid);
    clean(slot, w->kind);
    w->state = IDLE;
}

static bool await_done(int slot) {
    for (long until = now_ms() + 5000; now_ms() < until;) {
        if (atomic_load(&workers[slot].done)) return true;
        pause_shortly();
    }
    return false;
}

/* The worker has come to rest: its call has ended or waits. The state is looked at first: whoever sleeps after the signal
 * was handled waits again or has ended the call. */
bool settled(int slot) {
    for (long until = now_ms() + 5000; now_ms() < until;) {
        char state = thread_state(workers[slot].tid);
        if (atomic_load(&workers[slot].done)) return true;
        if (state == 'S' && atomic_load(&workers[slot].started)) return false;
        pause_shortly();
    }
    say(" RESTLESS");
    return false;
}

/* By the worker. */
void wait_as_told(void) {
    struct worker *w = &workers[self];
    atomic_store(&w->started, 1);
    w->result = wait_for(&objects[self], w->kind);
    w->error = errno;
}

static void release(int slot) {
    struct worker *w = &workers[slot];
    say(" release %s", kind_names[w->kind]);
    give(slot, w->kind);
    if (!await_done(slot)) {
        say(" STUCK");
        end_line();
        _exit(99);
    }
    tell_wait(slot);
}

static bool begin_wait(int slot, int kind) {
    struct worker *w = &workers[slot];
    if (prepare(slot, kind)) {
        say(" not prepared %s", error_name(errno));
        clean(slot, kind);
        return false;
    }
    if (kind == CHILD || kind == WAIT_ID) {
        if (pipe(objects[slot].fds)) return false;
        pid_t pid = quiet_fork();
        if (pid == 0) {
            char byte;
            close(objects[slot].fds[1]);
            _exit(read(objects[slot].fds[0], &byte, 1) + 40);
        }
        objects[slot].child = pid;
    }
    w->kind = kind;
    atomic_store(&w->started, 0);
    atomic_store(&w->done, 0);
    atomic_store(&w->command, 3);
    syscall(SYS_futex, &w->command, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
    w->state = WAITING;
    return true;
}

/* A worker begins to wait. */
OP(wait, 40, TOP_ONLY | MAIN_ONLY, WORKERS, KINDS) {
    int slot = a[0];
    if (workers[slot].state != IDLE || slot == 0) return say(" skipped");
    say(" %s", kind_names[a[1]]);
    if (!begin_wait(slot, a[1])) return;
    if (settled(slot)) tell_wait(slot);
    else say(" waits");
}

OP(release, 14, TOP_ONLY | MAIN_ONLY, WORKERS) {
    if (workers[a[0]].state != WAITING) return say(" skipped");
    release(a[0]);
}

/* A signal to a worker that waits: its call ends or goes on. */
OP(poke, 30, TOP_ONLY | MAIN_ONLY, WORKERS, 8) {
    int slot = a[0], sig = common_signals[a[1]], before = atomic_load(&logged);
    struct worker *w = &workers[slot];
    if (w->state != WAITING || fatal(sig)) return say(" skipped");
    say(" %s %s", kind_names[w->kind], signal_name(sig));
    bool comes = handled(sig) && !blocked_by(slot, sig);
    say(" %s", outcome(syscall(SYS_tgkill, leader, w->tid, sig)));
    if (comes) await_events(before + 1);
    if (settled(slot)) {
        say(" ended");
        tell_wait(slot);
    } else {
        say(" waits");
    }
}

/* Calls that Linux ends with EINTR when the process goes on after a stop; under Entresol they wait on (CAVEATS). */
static bool ended_by_stop(int kind) {
    static const int kinds[] = {RECEIVE_TIMED, EPOLL, EPOLL2, SIGWAIT, SIGTIMED, MESSAGE_QUEUE, SYSV_SEMAPHORE, SEND_FILE, SEND_TIMED};
    for (int i = 0; i < COUNT(kinds); i++)
        if (kinds[i] == kind) return true;
    return false;
}

/* A child stops this process and sets it going: calls that waited go on. */
OP(stop_and_go, 4, TOP_ONLY | MAIN_ONLY, 1) {
    /* All threads have a stop to come back from, so any that does not block SIGCONT may take it (`complete_signal`), and its
       call would end. */
    if (blocked_by(0, SIGCONT)) return say(" skipped");
    for (int i = 1; i < WORKERS; i++)
        if (workers[i].state == WAITING && handled(SIGCONT) && !blocked_by(i, SIGCONT)) return say(" skipped");
    for (int i = 1; i < WORKERS; i++)
        if (workers[i].state == SHARING || (workers[i].state == WAITING && ended_by_stop(workers[i].kind))) return say(" skipped");
    int before = atomic_load(&logged);
    pid_t target = leader, pid = quiet_fork();
    if (pid == 0) {
        char path[64], text[512];
        snprintf(path, sizeof path, "/proc/%d/stat", target);
        kill(target, SIGSTOP);
        for (int i = 0; i < 20000; i++) {
            int fd = open(path, O_RDONLY);
            ssize_t n = read(fd, text, sizeof text - 1);
            close(fd);
            text[n > 0 ? n : 0] = 0;
            char *end = strrchr(text, ')');
            if (end && end[2] == 'T') break;
            pause_shortly();
        }
        kill(target, SIGCONT);
        _exit(0);
    }
    say(" status %x", end_of(pid));
    if (handled(SIGCONT) && deliverable(SIGCONT)) await_events(before + 1);
    hide_taker = true;
    for (int i = 1; i < WORKERS; i++) {
        if (workers[i].state != WAITING) continue;
        if (settled(i)) {
            say(" %d ended", i);
            tell_wait(i);
        }
    }
}
