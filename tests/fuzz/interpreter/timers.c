/* Timers of every kind. Told is how many signals came where that is known, and that none comes after the timer is gone. */
#include "core.h"
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/times.h>

static void consume(long us) {
    struct timespec begin, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000 + (now.tv_nsec - begin.tv_nsec) / 1000 < us);
}

/* Something that the program does while a timer may expire. */
static void meanwhile(int what) {
    struct timespec t = {0, 300000};
    int ends[2];
    switch (what) {
    case 0: break;
    case 1: sched_yield(); break;
    case 2: nanosleep(&t, 0); break;
    case 3: consume(200); break;
    case 4: close(open("/proc/self/stat", O_RDONLY)); break;
    case 5:
        if (pipe(ends)) break;
        if (write(ends[1], "x", 1) != 1) break;
        close(ends[0]);
        close(ends[1]);
        break;
    }
}

/* Armed, and disarmed before or after it has expired: after that nothing comes. Signals are counted, not told, and nothing else may
 * tell whether there were any. */
OP(disarm, 12, 0, 4, 10, 6) {
    static const int signals[] = {SIGALRM, SIGVTALRM, SIGPROF};
    int which = a[0] % 3, sig = signals[which], before = atomic_load(&logged);
    if (!handled(sig) || leaves_traces(sig) || blocked_by(self, sig) || self != 0 || goes_astray(0, sig)) return say(" skipped");
    bool late = false;
    /* What comes while the handler runs would be another thread's, which may be late with it. */
    long period = a[1] & 1 && !deliverable_elsewhere(sig) ? 50 : 0;
    for (int round = 0; round < 20; round++) {
        struct itimerval value = {{0, period}, {0, 1 + a[1] * 20}}, none = {0};
        setitimer(which, &value, 0);
        meanwhile(a[2]);
        setitimer(which, &none, 0);
        int now = atomic_load(&logged);
        meanwhile(1);
        meanwhile(5);
        late |= atomic_load(&logged) != now;
    }
    say(" late %d any %d", late, atomic_load(&logged) - before < 0);
    drained = atomic_load(&logged);
}

/* Blocked until it is waited for, so that it cannot come before the wait. */
OP(alarm, 4, NO_VFORK, 2) {
    if (!handled(SIGALRM)) return say(" skipped");
    int before = atomic_load(&logged);
    sigset_t set, old, open;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &set, &old);
    if (sigismember(&old, SIGALRM) || deliverable_elsewhere(SIGALRM)) {
        pthread_sigmask(SIG_SETMASK, &old, 0);
        return say(" skipped");
    }
    struct itimerval value = {{0, 0}, {0, 2000}};
    say(" %s", outcome(setitimer(ITIMER_REAL, &value, 0)));
    sigfillset(&open);
    sigdelset(&open, SIGALRM);
    struct timespec far = {100, 0};
    long r = a[0] ? sigsuspend(&open) : sigtimedwait(&set, 0, &far);
    say(" %s events %d", outcome(r), atomic_load(&logged) - before);
    pthread_sigmask(SIG_SETMASK, &old, 0);
}

OP(alarm_left, 3, 0, 3) {
    say(" %u", alarm(0) > 0);
    alarm(100 + a[0]);
    unsigned left = alarm(0);
    say(" %d %u", left > 90, alarm(0));
}

/* One-shot and periodic timers with a signal for the process or for this thread. */
OP(timer, 12, 0, 6, 8, 4, 3) {
    static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME, CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, CLOCK_TAI};
    int sig = common_signals[a[1]], before = atomic_load(&logged);
    bool periodic = a[2] & 2;
    /* What comes while the handler runs would be another thread's. */
    bool own = a[2] & 1 || (periodic && deliverable_elsewhere(sig));
    if (!handled(sig) || blocked_by(self, sig) || (!own && self != 0) || sig == SIGCHLD) return say(" skipped");
    if (!own && goes_astray(0, sig)) return say(" skipped");
    struct sigevent event = {.sigev_notify = own ? SIGEV_THREAD_ID : SIGEV_SIGNAL, .sigev_signo = sig, .sigev_value.sival_int = 21 + a[3]};
    event._sigev_un._tid = gettid();
    timer_t timer;
    struct itimerspec spec = {{0, periodic ? 500000 : 0}, {0, 500000}}, left;
    int r = timer_create(clocks[a[0]], &event, &timer);
    say(" %s", outcome(r));
    if (r) return;
    say(" %s", outcome(timer_settime(timer, 0, &spec, 0)));
    int wanted = periodic ? 3 : 1;
    for (long until = now_ms() + 3000; atomic_load(&logged) < before + wanted && now_ms() < until;) {
        if (clocks[a[0]] == CLOCK_PROCESS_CPUTIME_ID || clocks[a[0]] == CLOCK_THREAD_CPUTIME_ID) consume(100);
        else meanwhile(a[3]);
    }
    timer_gettime(timer, &left);
    say(" disarmed %d interval %ld", left.it_value.tv_nsec == 0, left.it_interval.tv_nsec);
    say(" %s", outcome(timer_delete(timer)));
    int now = atomic_load(&logged);
    meanwhile(2);
    say(" enough %d late %d", now - before >= wanted, atomic_load(&logged) - now);
    int last = now - 1;
    if (now > before) say(" code %d value %ld", events[last].code, events[last].value);
    drained = atomic_load(&logged);
}

/* Expiries while the signal is blocked are one signal and an overrun count. */
OP(overrun, 5, 0, 8, 2) {
    int sig = common_signals[a[0]];
    /* What a descriptor may read is not counted (CAVEATS). */
    if (!handled(sig) || read_by_descriptors >> (sig - 1) & 1) return say(" skipped");
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, sig);
    pthread_sigmask(SIG_BLOCK, &set, &old);
    struct timespec zero = {0, 0}, t = {0, 3000000}, far = {5, 0};
    bool other = false;
    while (sigtimedwait(&set, 0, &zero) > 0) other = true;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = sig};
    event._sigev_un._tid = gettid();
    timer_t timer;
    struct itimerspec spec = {{0, 100000}, {0, 100000}}, none = {0};
    timer_create(a[1] ? CLOCK_REALTIME : CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &spec, 0);
    nanosleep(&t, 0);
    siginfo_t info = {0};
    int r = sigtimedwait(&set, &info, &far);
    timer_settime(timer, 0, &none, 0);
    say(" had %d %s code %d enough %d", other, outcome(r), info.si_code, info.si_overrun >= 10);
    /* One more may have been queued before it was disarmed; deleting the timer takes it away or not, as Linux has it. */
    timer_delete(timer);
    while (sigtimedwait(&set, 0, &zero) > 0) {}
    pthread_sigmask(SIG_SETMASK, &old, 0);
}

OP(timer_errors, 6, 0, 12, 8, 8, 3) {
    static const clockid_t clocks[] = {0, 1, 2, 3, 4, 7, 11, 12, 99, -1, -2, -6};
    struct sigevent event = {.sigev_notify = (int[]){0, 1, 2, 4, 5, 77, -1, 0}[a[1]], .sigev_signo = (int[]){10, 0, 64, 65, -1, 32, 40, 9}[a[2]]};
    event._sigev_un._tid = a[3] == 0 ? gettid() : a[3] == 1 ? 1 : 999999;
    if (a[1] == 2) return say(" skipped");
    int id = -1;
    long r = syscall(SYS_timer_create, clocks[a[0]], &event, &id);
    say(" %s", outcome(r));
    if (r == 0) {
        struct itimerspec bad = {{0, 0}, {0, 2000000000}}, far = {{0, 0}, {1000, 0}};
        say(" %s", outcome(syscall(SYS_timer_settime, id, 0, &bad, 0)));
        say(" %s", outcome(syscall(SYS_timer_settime, id, 0, &far, 0)));
        say(" %s", outcome(syscall(SYS_timer_gettime, id, (void *)8)));
        say(" %s", outcome(syscall(SYS_timer_getoverrun, id)));
        say(" %s", outcome(syscall(SYS_timer_delete, id)));
    }
    say(" %s", outcome(syscall(SYS_timer_delete, 12345)));
}

OP(sleep, 5, 0, 12, 6, 2) {
    static const clockid_t clocks[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 99, -1};
    static const struct timespec times[] = {{0, 0}, {0, 1000}, {0, 1000000}, {0, 1000000000}, {-1, 0}, {0, -1}};
    struct timespec t = times[a[1]];
    if (a[0] == 2 && a[1] == 2) return say(" skipped");
    if (a[0] == 2 && a[1] == 1) return say(" skipped");
    long r = clock_nanosleep(clocks[a[0]], a[2] ? TIMER_ABSTIME : 0, &t, 0);
    say(" %s", r ? error_name(r) : "0");
}

OP(slack, 4, 0, 4) {
    static const long values[] = {0, 1000, 77777, 50000};
    say(" was %d", prctl(PR_GET_TIMERSLACK));
    say(" %s now %d", outcome(prctl(PR_SET_TIMERSLACK, values[a[0]])), prctl(PR_GET_TIMERSLACK));
}

OP(clocks, 4, 0, 12) {
    struct timespec first, second;
    clockid_t clock = (clockid_t[]){0, 1, 2, 3, 4, 5, 6, 7, 11, 99, -1, -6}[a[0]];
    int r = clock_gettime(clock, &first);
    say(" %s", outcome(r));
    if (r == 0) {
        clock_gettime(clock, &second);
        say(" forward %d", second.tv_sec > first.tv_sec || (second.tv_sec == first.tv_sec && second.tv_nsec >= first.tv_nsec));
    }
    r = clock_getres(clock, &first);
    say(" %s", outcome(r));
    if (r == 0) say(" %ld", first.tv_nsec);
    clockid_t of;
    say(" %s", outcome(clock_getcpuclockid(0, &of)));
}
