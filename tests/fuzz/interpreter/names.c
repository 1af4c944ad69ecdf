/* What names a thread or a process to the kernel: owners of descriptors, pidfds, CPU clocks, locks of files, what is shared. */
#include "core.h"
#include <poll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>

#ifndef SYS_futex_requeue
#define SYS_futex_requeue 456
#endif
#ifndef P_PIDFD
#define P_PIDFD 3
#endif

/* An id by what it stands for. */
static const char *id_name(long id) {
    if (id == 0) return "nobody";
    if (id == leader) return "leader";
    if (id == -leader) return "group of leader";
    for (int i = 1; i < WORKERS; i++)
        if (workers[i].state != ABSENT && id == workers[i].tid) return "worker";
    return id < 0 ? "group" : "other";
}

static pid_t id_of(long which) {
    struct worker *w = &workers[which % WORKERS];
    return w->state == ABSENT ? 0 : w->tid;
}

/* Who gets a descriptor's signals, said and asked in each way. */
OP(owner, 8, NO_VFORK, WORKERS, 7, 2) {
    int pair[2], id = id_of(a[0]), r = -1;
    if (id == 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return say(" skipped");
    struct f_owner_ex owner = {a[1] % 3, id}, got = {77, 77};
    int minus = -id;
    switch (a[1]) {
    case 0: case 1: case 2: r = fcntl(pair[0], F_SETOWN_EX, &owner); break;
    case 3: r = fcntl(pair[0], F_SETOWN, id); break;
    case 4: r = fcntl(pair[0], F_SETOWN, -id); break;
    case 5: r = ioctl(pair[0], a[2] ? FIOSETOWN : SIOCSPGRP, &id); break;
    case 6: r = ioctl(pair[0], a[2] ? FIOSETOWN : SIOCSPGRP, &minus); break;
    }
    say(" %s", outcome(r));
    /* For a thread's id that was said to be a process's Linux answers nobody. */
    bool for_process = (a[1] == 1 || a[1] == 3 || a[1] == 5) && id != leader;
    int by_ioctl = 77;
    say(" %s", outcome(fcntl(pair[0], F_GETOWN_EX, &got)));
    say(" %d %s", got.type, for_process ? "-" : id_name(got.pid));
    say(" %s", outcome(ioctl(pair[0], FIOGETOWN, &by_ioctl)));
    say(" %s", for_process ? "-" : id_name(by_ioctl));
    close(pair[0]);
    close(pair[1]);
}

/* Of this process or a child of it, alive and ended. */
OP(pidfd, 8, NO_VFORK, 6, 8, 4) {
    static const unsigned flags[] = {0, 1, 2, 4, 8, 3, 0x80, 16};
    bool of_child = a[0] >= 3;
    if (of_child && goes_astray(self, SIGCHLD)) return say(" skipped");
    int way[2];
    if (pipe(way)) return;
    pid_t child = of_child ? quiet_fork() : 0;
    if (of_child && child == 0) {
        char byte;
        close(way[1]);
        if (read(way[0], &byte, 1)) {}
        _exit(9);
    }
    close(way[0]);
    int fd = syscall(SYS_pidfd_open, of_child ? child : leader, a[2] & 1 ? O_NONBLOCK : 0);
    struct pollfd p = {fd, POLLIN, 0};
    char byte;
    say(" %s", plain(fd));
    say(" ready %s", outcome(poll(&p, 1, 0)));
    say(" read %s", outcome(read(fd, &byte, 1)));
    say(" signal %s", outcome(syscall(SYS_pidfd_send_signal, fd, 0, 0, flags[a[1]])));
    /* What the first thread may name is in CAVEATS. */
    siginfo_t info = {.si_code = a[2] & 2 || self == 0 ? SI_QUEUE : SI_USER};
    say(" info %s", outcome(syscall(SYS_pidfd_send_signal, fd, 0, &info, 0)));
    say(" wait %s", outcome(waitid(P_PIDFD, fd, &info, WEXITED | WNOHANG | __WALL)));
    int copy = syscall(SYS_pidfd_getfd, fd, of_child ? 9999 : way[1], a[1] == 7);
    say(" copy %s", plain(copy));
    if (copy >= 0) close(copy);
    close(way[1]);
    if (of_child) {
        while (poll(&p, 1, -1) < 0 && errno == EINTR) {}
        say(" ended %x", p.revents);
        info.si_pid = 0;
        int r;
        while ((r = waitid(P_PIDFD, fd, &info, WEXITED | __WALL | (a[0] == 4 ? WNOWAIT : 0))) < 0 && errno == EINTR) {}
        if (r < 0 && errno == EAGAIN) say(" again"), r = waitid(P_PID, child, &info, WEXITED | __WALL);
        say(" %s %d %d", outcome(r), info.si_pid == child, info.si_status);
        if (a[0] == 4) say(" %d", WEXITSTATUS(end_of(child)));
        say(" after %s", outcome(syscall(SYS_pidfd_send_signal, fd, 0, 0, 0)));
        say(" %s", outcome(waitid(P_PIDFD, fd, &info, WEXITED | WNOHANG | __WALL)));
    }
    close(fd);
}

/* What a thread beside others may not do is in CAVEATS. */
OP(unshare, 5, NO_VFORK, 8) {
    static const int flags[] = {0, CLONE_FILES, CLONE_FS, CLONE_SYSVSEM, CLONE_FILES | CLONE_FS, CLONE_THREAD, CLONE_VM, 1};
    bool alone = !shared_descriptors && !shared_folders;
    for (int i = 0; i < WORKERS; i++) alone &= i == self || workers[i].state == ABSENT;
    if (!alone && a[0] != 0 && a[0] < 5) return say(" skipped");
    say(" %s", outcome(unshare(flags[a[0]])));
}

/* Both words, and how many were woken. */
OP(wake_op, 8, 0, 8, 6, 3, 3, 3) {
    static const int values[] = {0, 1, 5};
    _Atomic uint32_t words[2] = {values[a[2]], values[a[3]]};
    int op = (int)((unsigned)(a[0] & 7) << 28 | (unsigned)a[1] << 24 | (unsigned)values[a[4]] << 12 | (unsigned)values[a[2]]);
    say(" %s", outcome(syscall(SYS_futex, &words[0], FUTEX_WAKE_OP | (a[4] & 1 ? FUTEX_PRIVATE_FLAG : 0), 1, 1L, &words[1], op)));
    say(" %d %d", (int)words[0], (int)words[1]);
}

/* From one word to another, private, shared or mixed, by the old call and the new one. */
OP(requeue, 6, 0, 4, 4, 5) {
    _Atomic uint32_t words[2] = {1, 2};
    static const unsigned flags[] = {0x82, 2, 0x82, 2};
    struct futex_waitv two[2] = {{1, (uintptr_t)&words[0], flags[a[0]], 0}, {0, (uintptr_t)&words[1], flags[a[1]], 0}};
    if (a[0] == 2) two[0].val = 7;
    if (a[1] == 2) two[1].uaddr = two[0].uaddr;
    static const int counts[] = {0, 1, 5, -1, 0x7fffffff};
    say(" %s", outcome(syscall(SYS_futex_requeue, two, a[0] == 3 ? 1 : 0, counts[a[2]], 1)));
    int how = a[0] & 1 ? 0 : FUTEX_PRIVATE_FLAG;
    say(" %s", outcome(syscall(SYS_futex, &words[0], FUTEX_CMP_REQUEUE | how, counts[a[2]], 1L, &words[1], a[1])));
    say(" %s", outcome(syscall(SYS_futex, &words[0], FUTEX_REQUEUE | how, 1, (long)counts[a[2]], &words[a[1] & 1], 0)));
}

/* Locks belong to the process, to an open file or to its description, and never to a thread. */
OP(file_lock, 8, NO_VFORK, 6, 3, 4) {
    static const char *name = "locked";
    int one = open(name, O_RDWR | O_CREAT, 0600), two = open(name, O_RDWR);
    struct flock mine = {.l_type = a[1] == 0 ? F_RDLCK : F_WRLCK, .l_start = a[2], .l_len = 2}, other = {.l_type = F_WRLCK, .l_start = 1, .l_len = 1};
    switch (a[0]) {
    case 0: say(" %s", outcome(fcntl(one, F_SETLK, &mine))); say(" %s", outcome(fcntl(two, F_SETLK, &other))); break;
    case 1: say(" %s", outcome(fcntl(one, F_OFD_SETLK, &mine))); say(" %s", outcome(fcntl(two, F_OFD_SETLK, &other))); break;
    case 2: say(" %s", outcome(flock(one, a[1] ? LOCK_EX : LOCK_SH))); say(" %s", outcome(flock(two, LOCK_SH | LOCK_NB))); break;
    case 3: say(" %s", outcome(fcntl(one, F_OFD_SETLK, &mine))); say(" %s", outcome(fcntl(two, F_GETLK, &other))); say(" %d %d", other.l_type, other.l_pid); break;
    case 4: say(" %s", outcome(fcntl(one, F_SETLKW, &mine))); say(" %s", outcome(fcntl(two, F_OFD_GETLK, &other))); say(" %d %s", other.l_type, id_name(other.l_pid)); break;
    case 5: say(" %s", outcome(fcntl(one, F_SETLK, &mine))); close(two); two = open(name, O_RDWR); say(" %s", outcome(fcntl(two, F_OFD_SETLK, &other))); break;
    }
    /* A child has none of the process's locks, and those of a description. */
    pid_t child = goes_astray(self, SIGCHLD) ? -1 : quiet_fork();
    if (child == 0) {
        struct flock asked = {.l_type = F_WRLCK, .l_start = 1, .l_len = 1};
        _exit(fcntl(one, F_GETLK, &asked) < 0 ? 9 : asked.l_type == F_UNLCK ? 1 : asked.l_pid == leader ? 2 : asked.l_pid == -1 ? 3 : 4);
    }
    if (child > 0) say(" child %d", WEXITSTATUS(end_of(child)));
    close(one);
    close(two);
    unlink(name);
}

/* A clock named by a thread's or a process's id, and a timer on it. */
OP(cpu_clock, 8, NO_VFORK, WORKERS, 4, 3) {
    pid_t id = id_of(a[0]);
    if (id == 0) return say(" skipped");
    clockid_t clock = ~(clockid_t)id << 3 | (a[1] & 1 ? 6 : 2) | (a[1] & 2 ? -1 & 1 : 0);
    struct timespec time = {-1, 0};
    say(" %s", outcome(clock_gettime(clock, &time)));
    say(" %d", time.tv_sec >= 0);
    say(" %s", outcome(clock_getres(clock, &time)));
    say(" %s", outcome(clock_settime(clock, &time)));
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    int r = timer_create(clock, &event, &timer);
    say(" %s", outcome(r));
    if (r == 0) {
        struct itimerspec spec = {.it_value = {1000, 0}};
        say(" %s", outcome(timer_settime(timer, a[2] == 1 ? TIMER_ABSTIME : 0, &spec, 0)));
        say(" %s", outcome(timer_gettime(timer, &spec)));
        say(" %d", spec.it_value.tv_sec > 0);
        timer_delete(timer);
    }
}

/* What another thread or this one is told and asked. */
OP(schedule_other, 8, NO_VFORK, WORKERS, 5, 3) {
    pid_t id = id_of(a[0]);
    static const int policies[] = {SCHED_OTHER, SCHED_BATCH, SCHED_IDLE};
    if (id == 0) return say(" skipped");
    struct sched_param parameter = {0};
    struct { uint32_t size, policy; uint64_t flags; int32_t nice; uint32_t priority; uint64_t more[3]; } attributes = {.size = 48};
    cpu_set_t set;
    switch (a[1]) {
    case 0:
        /* From SCHED_IDLE only those come back who may be nice to nobody. */
        if (getuid() != 0 && a[2] != 1) return say(" skipped");
        say(" %s", outcome(sched_setscheduler(id, policies[a[2]], &parameter)));
        break;
    case 1:
        CPU_ZERO(&set);
        CPU_SET(0, &set);
        say(" %s", outcome(sched_setaffinity(id, sizeof set, &set)));
        break;
    case 2: say(" %s", outcome(sched_setparam(id, &parameter))); break;
    case 3: parameter.sched_priority = 1; say(" %s", outcome(sched_setparam(id, &parameter))); break;
    }
    say(" %d", sched_getscheduler(id));
    say(" %s", outcome(syscall(SYS_sched_getattr, id, &attributes, 48, 0)));
    say(" policy %d flags %d priority %d", attributes.policy, (int)attributes.flags, attributes.priority);
    say(" affinity %s", outcome(sched_getaffinity(id, sizeof set, &set)));
    if (a[1] == 1) say(" %d", CPU_COUNT(&set));
}
