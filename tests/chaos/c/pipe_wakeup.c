// Self-pipe: the loop looks at its queue first and empties the wake-up pipe afterwards, with the news that came in between.
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define EVENTS 3
static int wake[2];
static atomic_int posted;

static void *post(void *unused)
{
    for (int i = 0; i < EVENTS; i++) {
        atomic_fetch_add(&posted, 1);
        (void)!write(wake[1], "!", 1);
    }
    return unused;
}

static void drain(void)
{
    char bytes[16];
    while (read(wake[0], bytes, sizeof bytes) > 0)
        ;
}

int main(void)
{
    pthread_t poster;
    int handled = 0;
    if (pipe2(wake, O_NONBLOCK))
        return 2;
    pthread_create(&poster, NULL, post, NULL);
    while (handled < EVENTS) {
        struct pollfd ready = {wake[0], POLLIN, 0};
        if (poll(&ready, 1, 5000) == 0)
            return 1; // nothing for five seconds, though the poster has long been ready
#ifdef BUG
        handled += atomic_exchange(&posted, 0);
        drain();
#else
        drain();
        handled += atomic_exchange(&posted, 0);
#endif
    }
    pthread_join(poster, NULL);
    return handled != EVENTS;
}
