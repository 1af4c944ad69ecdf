// Clock mix-up: the deadline is of CLOCK_MONOTONIC, the condition's clock is CLOCK_REALTIME, so the wait never waits.
#include <pthread.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t finished;
static int is_finished;

static void *compute(void *unused)
{
    pthread_mutex_lock(&mutex);
    is_finished = 1;
    pthread_cond_signal(&finished);
    pthread_mutex_unlock(&mutex);
    return unused;
}

int main(void)
{
    pthread_t worker;
    pthread_condattr_t attributes;
    struct timespec until;
    int error = 0;
    pthread_condattr_init(&attributes);
#ifndef BUG
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
#endif
    pthread_cond_init(&finished, &attributes);
    pthread_create(&worker, NULL, compute, NULL);
    /* There is other work meanwhile. */
    for (int i = 0; i < 300; i++)
        access("/", F_OK);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += 60;
    pthread_mutex_lock(&mutex);
    while (!is_finished && error == 0)
        error = pthread_cond_timedwait(&finished, &mutex, &until);
    pthread_mutex_unlock(&mutex);
    pthread_join(worker, NULL);
    return error;
}
