// Timer against shutdown: the last tick, which is to wake the thread, is ordered before the flag that the thread looks at then.
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

static int timer;
static atomic_bool stopping;
static atomic_long ticks;

static void *count(void *unused)
{
    uint64_t expired;
    struct pollfd ready = {timer, POLLIN, 0};
    while (!atomic_load(&stopping)) {
        if (poll(&ready, 1, 5000) == 0)
            abort(); // no tick for five seconds
        if (read(timer, &expired, sizeof expired) == sizeof expired)
            atomic_fetch_add(&ticks, expired);
    }
    return unused;
}

int main(void)
{
    pthread_t counter;
    struct itimerspec every = {{0, 200000}, {0, 200000}}, last = {{0, 0}, {0, 1}};
    timer = timerfd_create(CLOCK_MONOTONIC, 0);
    timerfd_settime(timer, 0, &every, NULL);
    pthread_create(&counter, NULL, count, NULL);
    while (atomic_load(&ticks) < 2)
        usleep(100);
#ifdef BUG
    timerfd_settime(timer, 0, &last, NULL);
    atomic_store(&stopping, 1);
#else
    atomic_store(&stopping, 1);
    timerfd_settime(timer, 0, &last, NULL);
#endif
    pthread_join(counter, NULL);
    close(timer);
    return 0;
}
