// Lost wake-up: the worker says that it sleeps only after it has looked at its queue, and nobody writes to its eventfd.
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define JOBS 2
static int wake;
static atomic_int queued, sleeps;

static void *work(void *unused)
{
    uint64_t count;
    for (int done = 0; done < JOBS;) {
        int found = atomic_exchange(&queued, 0);
#ifdef BUG
        if (!found) {
            atomic_store(&sleeps, 1);
#else
        if (!found)
            atomic_store(&sleeps, 1);
        if (!found && !(found = atomic_exchange(&queued, 0))) {
#endif
            struct pollfd ready = {wake, POLLIN, 0};
            if (poll(&ready, 1, 5000) == 0)
                abort(); // nothing for five seconds, though all has long been submitted
            (void)!read(wake, &count, sizeof count);
        }
        done += found;
    }
    return unused;
}

static void submit(void)
{
    uint64_t one = 1;
    atomic_fetch_add(&queued, 1);
    if (atomic_exchange(&sleeps, 0))
        (void)!write(wake, &one, sizeof one);
}

int main(void)
{
    pthread_t worker;
    wake = eventfd(0, 0);
    pthread_create(&worker, NULL, work, NULL);
    for (int i = 0; i < JOBS; i++)
        submit();
    pthread_join(worker, NULL);
    close(wake);
    return 0;
}
