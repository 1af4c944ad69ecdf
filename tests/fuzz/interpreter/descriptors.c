/* Descriptors that are looked at, and signals that they cause. */
#include "core.h"
#include <mqueue.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>

/* Pipes that both ends of are here, with or without something in them. */
static int ends[4][2];
static int held[4];

/* Before any child that shares the memory could open them for itself alone. */
void prepare_descriptors(void) {
    for (int i = 0; i < 4; i++) {
        if (i < 2 ? pipe2(ends[i], O_NONBLOCK) : socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends[i])) fail("pipe");
    }
}

OP(write, 8, 0, 4, 4) {
    char bytes[4] = {1, 2, 3, 4};
    ssize_t n = write(ends[a[0]][1], bytes, a[1] + 1);
    if (n > 0) held[a[0]] += n;
    say(" %s", outcome(n));
}

OP(read, 8, 0, 4, 8) {
    char bytes[8];
    say(" %s", outcome(read(ends[a[0]][0], bytes, a[1] + 1)));
}

static const long times_ns[] = {0, 1, 1000000, 3000000};

/* What is ready, and what the sets hold afterwards; sets hold what they are told even if nothing is. */
OP(select, 14, 0, 4, 16, 16, 4, 3) {
    fd_set in, out;
    FD_ZERO(&in);
    FD_ZERO(&out);
    int top = 0;
    for (int i = 0; i < 4; i++) {
        if (a[1] >> i & 1) FD_SET(ends[i][0], &in), top = ends[i][0] + 1 > top ? ends[i][0] + 1 : top;
        if (a[2] >> i & 1) FD_SET(ends[i][1], &out), top = ends[i][1] + 1 > top ? ends[i][1] + 1 : top;
    }
    fd_set *second = a[3] & 1 ? 0 : &out, asked[] = {in, out};
    struct timeval v = {0, 0};
    /* Time is left of the longest wait however busy the machine is; a short wait for what is ready may use its time up. */
    bool ready = select(top, &asked[0], second ? &asked[1] : 0, 0, &v) != 0;
    v = ready && a[0] ? (struct timeval){60, 0} : (struct timeval){0, times_ns[a[0]] / 1000};
    struct timespec t = {0, times_ns[a[0]]};
    int r = a[4] == 0 ? select(top, &in, second, 0, &v) : pselect(top, &in, second, a[3] & 2 ? &in : 0, &t, 0);
    say(" %s sets", outcome(r));
    for (int i = 0; i < 4; i++) say(" %d%d", FD_ISSET(ends[i][0], &in) != 0, second && FD_ISSET(ends[i][1], &out));
    if (a[4] == 0) say(" left %d", v.tv_sec != 0 || v.tv_usec != 0);
}

OP(poll, 10, 0, 4, 16, 4) {
    struct pollfd p[9];
    int n = 0;
    for (int i = 0; i < 4; i++)
        if (a[1] >> i & 1) p[n++] = (struct pollfd){ends[i][0], POLLIN, 0x77}, p[n++] = (struct pollfd){ends[i][1], a[2] & 1 ? POLLOUT : 0, 0x77};
    p[n++] = (struct pollfd){a[2] & 2 ? -1 : 900, POLLIN, 0x77};
    struct timespec t = {0, times_ns[a[0]]};
    int r = a[2] & 1 ? poll(p, n, times_ns[a[0]] / 1000000) : ppoll(p, n, &t, 0);
    say(" %s", outcome(r));
    for (int i = 0; i < n; i++) say(" %x", p[i].revents);
}

OP(epoll, 8, 0, 4, 16, 4) {
    int fd = epoll_create1(0);
    for (int i = 0; i < 4; i++) {
        struct epoll_event e = {.events = EPOLLIN | (a[2] & 1 ? EPOLLET : 0) | (a[2] & 2 ? EPOLLONESHOT : 0), .data.u32 = i};
        if (a[1] >> i & 1) epoll_ctl(fd, EPOLL_CTL_ADD, ends[i][0], &e);
    }
    for (int round = 0; round < 2; round++) {
        struct epoll_event got[4];
        struct timespec t = {0, times_ns[a[0]]};
        int r = round ? epoll_pwait2(fd, got, 4, &t, 0) : epoll_wait(fd, got, 4, times_ns[a[0]] / 1000000);
        int which = 0;
        for (int i = 0; i < r; i++) which |= 1 << got[i].data.u32;
        say(" %s %x", outcome(r), which);
    }
    close(fd);
}

/* Signals that a call of the thread's own causes have been handled when it returns. */
enum { ASYNC_PIPE, ASYNC_SOCKET, NOTIFY_RENAME, NOTIFY_QUEUE, ASYNC_THREAD, LEASE, SOURCES };
OP(io_signal, 12, 0, SOURCES, 3, 8) {
    static const int choices[] = {SIGUSR1, 40, SIGURG};
    int sig = choices[a[1]], before = atomic_load(&logged);
    if (!handled(sig) || goes_astray(0, sig)) return say(" skipped");
    bool mine = !blocked_by(self, sig), comes = mine;
    long r = 0;
    if (a[0] == ASYNC_PIPE || a[0] == ASYNC_SOCKET || a[0] == ASYNC_THREAD) {
        int pair[2];
        if (a[0] == ASYNC_SOCKET ? socketpair(AF_UNIX, SOCK_STREAM, 0, pair) : pipe(pair)) return;
        struct f_owner_ex owner = {a[0] == ASYNC_THREAD ? F_OWNER_TID : F_OWNER_PID, a[0] == ASYNC_THREAD ? gettid() : getpid()};
        say(" owner %s", outcome(fcntl(pair[0], F_SETOWN_EX, &owner)));
        struct f_owner_ex got = {0};
        fcntl(pair[0], F_GETOWN_EX, &got);
        say(" same %d", got.type == owner.type && got.pid == owner.pid);
        fcntl(pair[0], F_SETSIG, sig);
        fcntl(pair[0], F_SETFL, O_ASYNC);
        r = write(pair[1], "x", 1);
        say(" %s now %d", outcome(r), self == 0 && mine ? atomic_load(&logged) - before : 0);
        if (a[0] != ASYNC_THREAD) comes = deliverable(sig), hide_taker = blocked_by(0, sig);
        if (comes) await_events(before + 1);
        close(pair[0]);
        close(pair[1]);
    } else if (a[0] == NOTIFY_RENAME) {
        mkdir("noted", 0700);
        close(open("noted/a", O_CREAT | O_RDWR, 0600));
        int fd = open("noted", O_RDONLY);
        fcntl(fd, F_SETSIG, sig);
        fcntl(fd, F_NOTIFY, DN_RENAME);
        r = rename("noted/a", "noted/b");
        say(" %s now %d", outcome(r), self == 0 && mine ? atomic_load(&logged) - before : 0);
        comes = deliverable(sig), hide_taker = blocked_by(0, sig) || self != 0;
        if (comes) await_events(before + 1);
        close(fd);
        unlink("noted/b");
        rmdir("noted");
    } else if (a[0] == NOTIFY_QUEUE) {
        char name[32];
        snprintf(name, sizeof name, "/fuzz-n-%d", getpid());
        struct mq_attr attributes = {.mq_maxmsg = 2, .mq_msgsize = 8};
        mqd_t queue = mq_open(name, O_RDWR | O_CREAT, 0600, &attributes);
        mq_unlink(name);
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = sig, .sigev_value.sival_int = 33};
        say(" notify %s", outcome(mq_notify(queue, &event)));
        r = mq_send(queue, "1", 2, 0);
        say(" %s now %d", outcome(r), self == 0 && mine ? atomic_load(&logged) - before : 0);
        comes = deliverable(sig), hide_taker = blocked_by(0, sig);
        if (comes) await_events(before + 1);
        mq_close(queue);
    } else {
        say(" none");
    }
}

OP(close_range, 4, NO_VFORK, 4) {
    static const unsigned flags[] = {0, CLOSE_RANGE_CLOEXEC, CLOSE_RANGE_UNSHARE, 64};
    bool alone = !shared_descriptors;
    for (int i = 1; i < WORKERS; i++) alone &= workers[i].state == ABSENT;
    /* A table of its own, where others have or had it too, is in CAVEATS. */
    if (flags[a[0]] & CLOSE_RANGE_UNSHARE && !alone) return say(" skipped");
    int fd = fcntl(0, F_DUPFD, 700);
    say(" %s", outcome(close_range(700, 800, flags[a[0]])));
    say(" %d", fcntl(fd, F_GETFD));
    close(fd);
}

/* In a child that shares its parent's descriptors. */
OP(open_number, 4, 0, 3) {
    int fd = 600 + a[0];
    say(" before %s", outcome(fcntl(fd, F_GETFD)));
    say(" %s", outcome(dup2(0, fd)));
}

OP(dup_more, 4, 0, 8, 4) {
    static const int numbers[] = {-1, 0, 5, 300, 899, 1023, 1024, 1000000};
    long r = a[1] == 0 ? dup2(ends[0][0], numbers[a[0]] == 5 || numbers[a[0]] == 0 ? 300 : numbers[a[0]]) : a[1] == 1 ? fcntl(ends[0][0], F_DUPFD, numbers[a[0]])
             : a[1] == 2 ? dup3(ends[0][0], 301, a[0] & 1 ? O_CLOEXEC : 77) : dup(numbers[a[0]]);
    say(" %s", plain(r));
    if (r > 2 && r != ends[0][0] && r > 20) close(r);
}

OP(eventfd, 4, 0, 4, 4) {
    int fd = eventfd(a[0], EFD_NONBLOCK | (a[1] & 1 ? EFD_SEMAPHORE : 0));
    uint64_t value = a[1] == 3 ? -1ull : 2, got = 0;
    say(" %s", outcome(write(fd, &value, 8)));
    say(" %s", outcome(read(fd, &got, 8)));
    say(" %ld %s", (long)got, outcome(read(fd, &got, 8)));
    close(fd);
}

OP(timerfd, 4, 0, 3, 3) {
    static const int clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME};
    int fd = timerfd_create(clocks[a[0]], 0);
    struct itimerspec spec = {{0, 0}, {0, 100000 * (a[1] + 1)}};
    uint64_t got = 0;
    say(" %s", outcome(timerfd_settime(fd, 0, &spec, 0)));
    ssize_t n;
    while ((n = read(fd, &got, 8)) < 0 && errno == EINTR) {}
    say(" %s %ld", outcome(n), (long)got);
    close(fd);
}

/* Over before the time limit, for ever or not at all. */
OP(timed_receive, 5, 0, 3) {
    int pair[2];
    if (socketpair(AF_UNIX, a[0] == 2 ? SOCK_DGRAM : SOCK_STREAM, 0, pair)) return;
    struct timeval t = {0, 2000};
    char byte;
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    if (a[0] == 1) say(" sent %s", outcome(write(pair[1], "x", 1)));
    say(" %s", outcome(a[0] == 0 ? read(pair[0], &byte, 1) : recv(pair[0], &byte, 1, 0)));
    close(pair[0]);
    close(pair[1]);
}

OP(broken_pipe, 5, 0, 2) {
    int pair[2], before = atomic_load(&logged);
    if (a[0] ? pipe(pair) : socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return;
    close(pair[0]);
    if (fatal(SIGPIPE) && depth == 0) return (void)close(pair[1]);
    long r = write(pair[1], "x", 1);
    say(" %s now %d", outcome(r), atomic_load(&logged) - before);
    close(pair[1]);
}
