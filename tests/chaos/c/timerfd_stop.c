// Timer against shutdown: the timer is stopped and the flag is set, but the thread may have begun to wait for one more tick.
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/timerfd.h>
#include <unistd.h>

static int timer;
static atomic_bool stopping;
static atomic_long ticks;

static void *count(void *unused)
{
    uint64_t expired;
    while (!atomic_load(&stopping))
        if (read(timer, &expired, sizeof expired) == sizeof expired)
            atomic_fetch_add(&ticks, expired);
    return unused;
}

int main(void)
{
    pthread_t counter;
    struct itimerspec every = {{0, 200000}, {0, 200000}}, never = {{0, 0}, {0, 0}}, at_once = {{0, 0}, {0, 1}};
    timer = timerfd_create(CLOCK_MONOTONIC, 0);
    timerfd_settime(timer, 0, &every, NULL);
    pthread_create(&counter, NULL, count, NULL);
    while (atomic_load(&ticks) < 2)
        usleep(100);
    atomic_store(&stopping, 1);
#ifdef BUG
    (void)at_once;
    timerfd_settime(timer, 0, &never, NULL);
#else
    timerfd_settime(timer, 0, &never, NULL);
    timerfd_settime(timer, 0, &at_once, NULL);
#endif
    pthread_join(counter, NULL);
    close(timer);
    return 0;
}
