/* Workers that wait for descriptors which they share, and all that may end such a wait.
 *
 * A channel has an end to read from and one to write to. Several workers may wait for the same one: either all of them look
 * (`poll` and its like) or all of them consume, each as much as the others, so that it does not matter which is first. How
 * many must come back follows from what was put in and taken out; those are awaited, and results are told in order. Whether
 * others come back as well, and with what, is compared with the host. */
#include "core.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>

enum { PIPE, STREAM, SEQUENCED, DATAGRAM, COUNTER, SEMAPHORE, FIFO, LISTENER, KINDS };
enum {
    READ, READ_VECTOR, READ_VECTOR_2, RECEIVE, RECEIVE_FROM, RECEIVE_MESSAGE, RECEIVE_MESSAGES, SPLICE, ACCEPT, WHOLE,
    PEEK, POLL, PPOLL, SELECT, PSELECT, EPOLL, EPOLL_EDGE, EPOLL_ONCE, EPOLL_NESTED, EPOLL_PRECISE,
    WRITE, SEND, WRITE_VECTOR, WAYS
};
enum { CHANNELS = 4, SIGNAL = 41, BIG = 100000 };

static struct channel {
    int kind, in, out, held_in, held_out;
    int size; /* How much each consumer asks for. */
    bool open, ended, sent_to;
    long before; /* How much was in it when the writer began. */
} channels[CHANNELS];

/* What is in a channel: bytes, or messages. A forked child may add to it. */
static _Atomic long *units;

static struct waiter {
    int channel, way, number; /* The descriptor's number when the wait began. */
    bool timed;
} waiters[WORKERS];

/* How many consumers there were when the last operation ended: a forked child has no workers to count. */
static int waited_for[CHANNELS];

static const struct timespec far = {1000, 0}, shortly = {0, 5000000};

static bool by_bytes(int kind) { return kind == PIPE || kind == STREAM || kind == FIFO; }
static bool is_socket(int kind) { return kind == STREAM || kind == SEQUENCED || kind == DATAGRAM; }
static bool is_event(int kind) { return kind == COUNTER || kind == SEMAPHORE; }
static bool consumes(int way) { return way <= WHOLE; }
static bool writes(int way) { return way >= WRITE; }
static bool names_it(int way) { return way >= POLL && way <= PSELECT; }
static bool any(int way) { return way >= 0; }

static int waiting_for(int channel, bool (*which)(int)) {
    int n = 0;
    for (int i = 1; i < WORKERS; i++) n += workers[i].state == SHARING && waiters[i].channel == channel && which(waiters[i].way);
    return n;
}

bool waits_for_another_number(int slot) {
    return workers[slot].state == SHARING && channels[waiters[slot].channel].in != waiters[slot].number;
}

static void close_all(struct channel *c) {
    int fds[] = {c->in, c->out, c->held_in, c->held_out};
    for (int i = 0; i < 4; i++)
        if (fds[i] >= 0) close(fds[i]);
    c->open = false;
}

static int set_up(struct channel *c, int number) {
    int ends[2] = {-1, -1};
    switch (c->kind) {
    case PIPE: if (pipe(ends)) return -1; break;
    case STREAM: if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return -1; break;
    case SEQUENCED: if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends)) return -1; break;
    case DATAGRAM: if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends)) return -1; break;
    case COUNTER: case SEMAPHORE:
        ends[0] = eventfd(0, c->kind == SEMAPHORE ? EFD_SEMAPHORE : 0);
        ends[1] = dup(ends[0]);
        break;
    case FIFO: {
        char name[40];
        snprintf(name, sizeof name, "channel-%d", number);
        unlink(name);
        if (mkfifo(name, 0600)) return -1;
        int both = open(name, O_RDWR);
        ends[0] = open(name, O_RDONLY);
        ends[1] = open(name, O_WRONLY);
        close(both);
        break;
    }
    case LISTENER: {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        snprintf(address.sun_path + 1, 40, "channel-%d-%d", leader, number);
        ends[0] = socket(AF_UNIX, SOCK_STREAM, 0);
        if (bind(ends[0], (void *)&address, sizeof address) || listen(ends[0], 16)) return -1;
        ends[1] = dup(ends[0]);
    }
    }
    c->in = ends[0], c->out = ends[1];
    c->held_in = dup(ends[0]), c->held_out = dup(ends[1]);
    return c->held_out < 0 ? -1 : 0;
}

static long consume(struct channel *c, int fd, int way) {
    static __thread char bytes[4096];
    int size = is_event(c->kind) ? 8 : c->size;
    struct iovec parts[2] = {{bytes, size / 2}, {bytes + size / 2, size - size / 2}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    switch (way) {
    case READ: return read(fd, bytes, size);
    case READ_VECTOR: return readv(fd, parts, 2);
    case READ_VECTOR_2: return preadv2(fd, parts, 2, -1, 0);
    case RECEIVE: return recv(fd, bytes, size, 0);
    case RECEIVE_FROM: return recvfrom(fd, bytes, size, 0, 0, 0);
    case RECEIVE_MESSAGE: return recvmsg(fd, &message, 0);
    case RECEIVE_MESSAGES: {
        struct mmsghdr one = {.msg_hdr = message};
        long r = recvmmsg(fd, &one, 1, 0, 0);
        return r == 1 ? (long)one.msg_len : r;
    }
    case SPLICE: {
        int ends[2];
        if (pipe(ends)) return -1;
        long r = splice(fd, 0, ends[1], 0, size, 0);
        int error = errno;
        close(ends[0]);
        close(ends[1]);
        errno = error;
        return r;
    }
    case ACCEPT: {
        int one = accept4(fd, 0, 0, SOCK_CLOEXEC);
        if (one >= 0) close(one);
        return one < 0 ? -1 : 1;
    }
    case WHOLE: return recv(fd, bytes, size, MSG_WAITALL);
    case PEEK: return recv(fd, bytes, 1, MSG_PEEK);
    }
    return -1;
}

static long look(int fd, int way, bool timed) {
    struct pollfd p = {fd, POLLIN, 0x55};
    struct timespec t = timed ? shortly : far;
    int ms = timed ? 5 : 1000000;
    switch (way) {
    case POLL: case PPOLL: {
        long r = way == POLL ? poll(&p, 1, ms) : ppoll(&p, 1, &t, 0);
        return r < 0 ? r : r * 1000 + p.revents;
    }
    case SELECT: case PSELECT: {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(fd, &set);
        struct timeval v = {t.tv_sec, t.tv_nsec / 1000};
        long r = way == SELECT ? select(fd + 1, &set, 0, 0, &v) : pselect(fd + 1, &set, 0, 0, &t, 0);
        return r < 0 ? r : r * 1000 + FD_ISSET(fd, &set);
    }
    }
    struct epoll_event e = {.events = EPOLLIN, .data.u32 = 3}, got = {0};
    if (way == EPOLL_EDGE) e.events |= EPOLLET;
    if (way == EPOLL_ONCE) e.events |= EPOLLONESHOT;
    int inner = epoll_create1(EPOLL_CLOEXEC), set = inner, outer = -1;
    long r = epoll_ctl(inner, EPOLL_CTL_ADD, fd, &e);
    if (way == EPOLL_NESTED) {
        set = outer = epoll_create1(EPOLL_CLOEXEC);
        e.events = EPOLLIN;
        if (r == 0) r = epoll_ctl(outer, EPOLL_CTL_ADD, inner, &e);
    }
    if (r == 0) r = way == EPOLL_PRECISE ? epoll_pwait2(set, &got, 1, &t, 0) : epoll_wait(set, &got, 1, ms);
    int error = errno;
    close(inner);
    if (outer >= 0) close(outer);
    errno = error;
    return r < 0 ? r : r * 1000 + got.events;
}

static long put_much(int fd, int way) {
    static char bytes[BIG];
    struct iovec parts[2] = {{bytes, BIG / 3}, {bytes, BIG - BIG / 3}};
    switch (way) {
    case WRITE: return write(fd, bytes, BIG);
    case SEND: return send(fd, bytes, BIG, MSG_NOSIGNAL);
    default: return writev(fd, parts, 2);
    }
}

/* By the worker. No signal but one reaches it. */
void wait_on_channel(void) {
    struct worker *w = &workers[self];
    struct waiter *waiter = &waiters[self];
    struct channel *c = &channels[waiter->channel];
    sigset_t old = w->mask, most;
    sigfillset(&most);
    sigdelset(&most, SIGNAL);
    pthread_sigmask(SIG_SETMASK, &most, 0);
    w->mask = most;
    int in = c->in, out = c->out;
    atomic_store(&w->started, 1);
    if (waiter->way <= PEEK) w->result = consume(c, in, waiter->way);
    else if (!writes(waiter->way)) w->result = look(in, waiter->way, waiter->timed);
    else w->result = put_much(out, waiter->way);
    w->error = errno;
    pthread_sigmask(SIG_SETMASK, &old, 0);
    w->mask = old;
}

/* Whether a worker's wait must be over. */
static bool must_end(int slot) {
    struct waiter *w = &waiters[slot];
    struct channel *c = &channels[w->channel];
    long there = atomic_load(&units[w->channel]);
    if (w->timed || c->ended) return true;
    if (w->way == WHOLE) return there >= c->size;
    if (!writes(w->way)) return there > 0;
    /* As long as there is room it writes; it has ended when all is there. What is there is asked last, because it may write now. */
    int left = 0;
    struct pollfd p = {c->held_out, POLLOUT, 0};
    if (poll(&p, 1, 0) > 0) return true;
    ioctl(c->held_in, FIONREAD, &left);
    return left - c->before >= BIG;
}

static int by_text(const void *a, const void *b) { return strcmp(a, b); }

static void subtract(int channel, long result) {
    long there = atomic_load(&units[channel]);
    int kind = channels[channel].kind;
    atomic_fetch_sub(&units[channel], by_bytes(kind) ? result : kind == COUNTER ? there : 1);
}

/* All that must end has ended, and is told. */
static void settle(void) {
    char results[4 * WORKERS][40];
    int count = 0, waiting = 0;
    bool complete = false;
    for (int i = 1; i < WORKERS; i++) waiting += workers[i].state == SHARING;
    for (long until = now_ms() + 5000; !complete && now_ms() < until;) {
        complete = true;
        for (int i = 1; i < WORKERS; i++) {
            struct worker *w = &workers[i];
            if (w->state != SHARING) continue;
            if (!atomic_load(&w->done)) {
                complete &= !must_end(i);
                continue;
            }
            complete = false;
            int at = waiters[i].channel;
            if (consumes(waiters[i].way) && w->result > 0) subtract(at, w->result);
            errno = w->error;
            snprintf(results[count++], sizeof *results, "%d: %s", at, outcome(w->result));
            w->state = IDLE;
        }
        if (!complete) pause_shortly();
    }
    for (int i = 0; i < CHANNELS; i++) waited_for[i] = waiting_for(i, consumes);
    /* Which of them first took what had been pending is not told. */
    hide_taker |= count > 0 && waiting > 1;
    qsort(results, count, sizeof *results, by_text);
    for (int i = 0; i < count; i++) say(" (%s)", results[i]);
    for (int i = 1; !complete && i < WORKERS; i++)
        if (workers[i].state == SHARING && must_end(i)) say(" STUCK %d on %d way %d units %ld", i, waiters[i].channel, waiters[i].way, atomic_load(&units[waiters[i].channel]));
}

/* The worker has come back, or has been asleep for so long that it is in the call: under Entresol it sleeps while another
 * host thread learns that the call need not wait. */
static void rest(int slot) {
    for (int i = 0; i < 40 && !settled(slot); i++) pause_shortly();
    settle();
}

/* Those that wait for it are in the call by then, not about to be. */
static void surely_waiting(int channel) {
    struct timespec t = {0, 3000000};
    if (waiting_for(channel, any)) nanosleep(&t, 0);
}

static void share_units(void) {
    if (!units) units = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static bool usable(long i) {
    share_units();
    settle();
    return channels[i].open;
}

static void make(long i, int kind, int size) {
    static const int sizes[] = {1, 5, 64, 3000};
    struct channel *c = &channels[i];
    if (c->open) close_all(c);
    *c = (struct channel){.kind = kind, .size = sizes[size], .open = true};
    atomic_store(&units[i], 0);
    if (set_up(c, i)) fail("channel");
}

OP(channel, 14, TOP_ONLY | MAIN_ONLY, CHANNELS, KINDS, 4) {
    usable(a[0]);
    if (waiting_for(a[0], any)) return say(" skipped");
    make(a[0], a[1], a[2]);
}

/* The first worker from `slot` on that is in one of these states; 0 if there is none. */
static int find_worker(int slot, int state, int other) {
    for (int i = 0; i < WORKERS - 1; i++) {
        int at = 1 + (slot + i) % (WORKERS - 1);
        if (workers[at].state == state || workers[at].state == other) return at;
    }
    return 0;
}

/* Whether one may wait in this way beside those that wait already. */
static bool fits(int channel, int way) {
    struct channel *c = &channels[channel];
    int readers = waiting_for(channel, any) - waiting_for(channel, writes);
    /* What a writer has put in is not counted, so nobody reads beside it. */
    if (c->sent_to) return false;
    if (writes(way)) return by_bytes(c->kind) && readers == 0 && !c->ended && (way != SEND || is_socket(c->kind));
    if (way == WHOLE && (c->kind != STREAM || readers > 0)) return false;
    for (int i = 1; i < WORKERS; i++) {
        if (workers[i].state != SHARING || waiters[i].channel != channel) continue;
        if (consumes(waiters[i].way) != consumes(way) || waiters[i].way == WHOLE) return false;
    }
    return true;
}

/* A worker begins to wait. */
OP(share, 40, TOP_ONLY | MAIN_ONLY, WORKERS, CHANNELS, WAYS, 4, KINDS) {
    struct channel *c = &channels[a[1]];
    if (!usable(a[1])) make(a[1], a[4], a[4] % 4);
    int slot = find_worker(a[0], IDLE, ABSENT), way = a[2], left = 0;
    struct worker *w = &workers[slot];
    if (slot == 0) return say(" skipped");
    if (w->state == ABSENT && !begin_worker(slot, 0, 4096)) return;
    if (way >= RECEIVE && way <= RECEIVE_MESSAGES && !is_socket(c->kind) && way % 4) way = way % 3;
    if (consumes(way) && (way == ACCEPT) != (c->kind == LISTENER)) way = c->kind == LISTENER ? ACCEPT : READ;
    if (way == PEEK && !is_socket(c->kind)) way = POLL;
    if (!fits(a[1], way)) return say(" skipped");
    if (writes(way)) {
        ioctl(c->held_in, FIONREAD, &left);
        c->before = left;
        c->sent_to = true;
    }
    waiters[slot] = (struct waiter){.channel = a[1], .way = way, .number = c->in, .timed = a[3] == 0 && way >= POLL && !writes(way)};
    atomic_store(&w->started, 0);
    atomic_store(&w->done, 0);
    w->state = SHARING;
    atomic_store(&w->command, 4);
    syscall(SYS_futex, &w->command, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
    rest(slot);
    say(w->state == SHARING ? " waits" : " back");
}

/* Adds bytes, a message, an event or a connection: what the call answers. */
static long add(long i, long amount) {
    static const int sizes[] = {1, 4, 100, 2000};
    static const char bytes[2000];
    struct channel *c = &channels[i];
    long r;
    if (is_event(c->kind)) {
        uint64_t more = amount + 1;
        r = write(c->out, &more, 8);
    } else if (c->kind == LISTENER) {
        struct sockaddr_un address;
        socklen_t length = sizeof address;
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        getsockname(c->held_in, (void *)&address, &length);
        r = connect(fd, (void *)&address, length);
        close(fd);
        r += r == 0;
    } else {
        r = write(c->out, bytes, sizes[amount]);
    }
    if (r > 0) atomic_fetch_add(&units[i], by_bytes(c->kind) ? sizes[amount] : c->kind == SEMAPHORE ? amount + 1 : 1);
    return r;
}

/* If one of several consumers comes back, all do: which of them is first is not told. */
OP(put, 26, NO_VFORK, CHANNELS, 4) {
    struct channel *c = &channels[a[0]];
    if (self != 0 || depth > 1 || !c->open) return say(" skipped");
    if (depth == 0) settle();
    int before = depth > 0 ? waited_for[a[0]] : waiting_for(a[0], consumes), left = 0;
    /* A child does not see what has come back, so it adds only where there is nothing. */
    long most = depth > 0 ? 0 : by_bytes(c->kind) ? 30000 : 4;
    if (c->ended || c->sent_to || atomic_load(&units[a[0]]) > most || (depth > 0 && before > 1)) return say(" skipped");
    do {
        say(" %s", outcome(add(a[0], a[1])));
        if (depth > 0) return;
        settle();
        left = waiting_for(a[0], consumes);
    } while (left > 0 && left < before);
}

/* By the thread that reads the program, if there is something. */
OP(take, 8, TOP_ONLY | MAIN_ONLY, CHANNELS) {
    struct channel *c = &channels[a[0]];
    if (!usable(a[0]) || c->ended || c->sent_to || atomic_load(&units[a[0]]) <= 0 || waiting_for(a[0], any)) return say(" skipped");
    long r = consume(c, c->held_in, c->kind == LISTENER ? ACCEPT : READ);
    say(" %s", outcome(r));
    if (r > 0) subtract(a[0], r);
}

/* Makes room for a writer: some, or until it has come back. */
OP(drain, 12, TOP_ONLY | MAIN_ONLY, CHANNELS, 4) {
    static char bytes[65536];
    struct channel *c = &channels[a[0]];
    if (!usable(a[0]) || !c->sent_to) return say(" skipped");
    long sum = 0;
    for (int round = 0; a[1] == 0 || round < a[1];) {
        int left = 0;
        ioctl(c->held_in, FIONREAD, &left);
        if (left == 0 && !waiting_for(a[0], writes)) break;
        if (left > 0) {
            long r = read(c->held_in, bytes, a[1] ? 20000 : sizeof bytes);
            if (r > 0) sum += r, c->before -= r;
            round++;
        }
        settle();
    }
    if (!waiting_for(a[0], writes) && a[1] == 0) {
        say(" all %ld", sum - atomic_load(&units[a[0]]));
        atomic_store(&units[a[0]], 0);
        c->sent_to = false;
    }
}

/* No writer is left, or nothing more comes. */
OP(hang_up, 6, TOP_ONLY | MAIN_ONLY, CHANNELS, 3) {
    struct channel *c = &channels[a[0]];
    if (!usable(a[0]) || c->ended || c->sent_to || c->kind == DATAGRAM || is_event(c->kind)) return say(" skipped");
    surely_waiting(a[0]);
    if (c->kind == LISTENER || (a[1] == 1 && is_socket(c->kind))) {
        say(" %s", outcome(shutdown(c->held_in, SHUT_RD)));
    } else if (a[1] == 2 && is_socket(c->kind)) {
        say(" %s", outcome(shutdown(c->held_out, SHUT_WR)));
    } else {
        /* A child that another worker waits for would have it open still. */
        for (int i = 1; i < WORKERS; i++)
            if (workers[i].state == WAITING) return say(" skipped");
        close(c->out);
        close(c->held_out);
        c->out = c->held_out = -1;
    }
    c->ended = true;
    settle();
}

/* The number is closed or stands for something else; who waits goes on waiting for what it was. */
OP(renumber, 8, TOP_ONLY | MAIN_ONLY, CHANNELS, 4) {
    struct channel *c = &channels[a[0]];
    /* A thread in `poll` or `select` is told so at once (CAVEATS). */
    if (!usable(a[0]) || waiting_for(a[0], names_it)) return say(" skipped");
    surely_waiting(a[0]);
    int before = c->in;
    switch (a[1]) {
    case 0: close(c->in), c->in = fcntl(c->held_in, F_DUPFD, 0); break;
    case 1: close(c->in), c->in = fcntl(c->held_in, F_DUPFD_CLOEXEC, 400); break;
    case 2: say(" %d", dup2(0, c->in) == c->in), c->in = dup2(c->held_in, c->in); break;
    case 3: say(" %s", outcome(close_range(c->in, c->in, 0))), c->in = fcntl(c->held_in, F_DUPFD, 0); break;
    }
    /* A call that begins anew finds an error there, and no file that somebody has just opened. */
    int blind = open("/dev/null", O_WRONLY);
    if (c->in != before && blind != before) dup2(blind, before);
    if (blind != before) close(blind);
    settle();
}

/* O_NONBLOCK of the description: those that wait already go on waiting. */
OP(blocking, 6, TOP_ONLY | MAIN_ONLY, CHANNELS, 2) {
    struct channel *c = &channels[a[0]];
    if (!usable(a[0])) return say(" skipped");
    surely_waiting(a[0]);
    int flags = fcntl(c->in, F_GETFL);
    say(" was %d", (flags & O_NONBLOCK) != 0);
    say(" %s", outcome(fcntl(c->in, F_SETFL, a[1] ? flags | O_NONBLOCK : flags & ~O_NONBLOCK)));
    settle();
}

/* A time limit that is far away changes which calls begin anew after a handler. */
OP(patience, 5, TOP_ONLY | MAIN_ONLY, CHANNELS, 2) {
    struct channel *c = &channels[a[0]];
    struct timeval t = {a[1] ? 1000 : 0, 0};
    /* Of those that wait already it is no matter to Linux; under Entresol it is. */
    if (!usable(a[0]) || waiting_for(a[0], any)) return say(" skipped");
    say(" %s", outcome(setsockopt(c->in, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t)));
}

/* A signal to one that waits. */
OP(nudge, 22, TOP_ONLY | MAIN_ONLY, WORKERS) {
    share_units();
    settle();
    int slot = find_worker(a[0], SHARING, SHARING), before = atomic_load(&logged);
    struct worker *w = &workers[slot];
    if (slot == 0 || fatal(SIGNAL)) return say(" skipped");
    surely_waiting(waiters[slot].channel);
    say(" %s", outcome(syscall(SYS_tgkill, leader, w->tid, SIGNAL)));
    if (handled(SIGNAL)) await_events(before + 1);
    rest(slot);
    say(w->state == SHARING ? " waits" : " back");
}

/* Ends the wait for good: by the thread that reads the program. */
void release_from_channel(int slot) {
    struct worker *w = &workers[slot];
    struct channel *c = &channels[waiters[slot].channel];
    static char bytes[65536];
    /* All that wait there, because any of them may be the one that comes back first. */
    int channel = waiters[slot].channel;
    for (long until = now_ms() + 5000; settle(), waiting_for(channel, any) && now_ms() < until;) {
        int left = 0;
        if (waiting_for(channel, writes)) {
            ioctl(c->held_in, FIONREAD, &left);
            long r = left > 0 ? read(c->held_in, bytes, sizeof bytes) : 0;
            if (r > 0) c->before -= r;
        } else if (c->kind == LISTENER) {
            shutdown(c->held_in, SHUT_RD);
            c->ended = true;
        } else {
            uint64_t one = 1;
            long r = write(c->held_out, &one, is_event(c->kind) ? 8 : 1);
            if (r > 0) atomic_fetch_add(&units[channel], 1);
        }
    }
    if (w->state == SHARING) {
        end_line();
        _exit(99);
    }
}
