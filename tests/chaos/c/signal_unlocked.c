// Lost wake-up: the flag is set and signalled without the mutex, between the waiter's look and its wait.
#include <pthread.h>
#include <stdatomic.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static atomic_bool stopping;
static int drained;

static void *drain(void *unused)
{
    pthread_mutex_lock(&mutex);
    while (!atomic_load(&stopping))
        pthread_cond_wait(&changed, &mutex);
    drained = 1;
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void stop(void)
{
#ifndef BUG
    pthread_mutex_lock(&mutex);
#endif
    atomic_store(&stopping, 1);
    pthread_cond_broadcast(&changed);
#ifndef BUG
    pthread_mutex_unlock(&mutex);
#endif
}

int main(void)
{
    pthread_t worker;
    pthread_create(&worker, NULL, drain, NULL);
    stop();
    pthread_join(worker, NULL);
    return !drained;
}
