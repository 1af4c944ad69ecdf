// Semaphore wait ignored: sem_timedwait ends with EINTR when a signal comes, and the caller believes that it has the token.
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>

static sem_t filled;
static int item;

static void on_signal(int number)
{
    (void)number;
}

static void *consume(void *unused)
{
    struct timespec until;
    int error;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 3600;
    do
        error = sem_timedwait(&filled, &until);
#ifdef BUG
    while (0);
#else
    while (error && errno == EINTR);
#endif
    assert(item == 7);
    (void)error;
    return unused;
}

int main(void)
{
    pthread_t consumer;
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    sem_init(&filled, 0, 0);
    pthread_create(&consumer, NULL, consume, NULL);
    pthread_kill(consumer, SIGUSR1);
    item = 7;
    sem_post(&filled);
    pthread_join(consumer, NULL);
    return 0;
}
