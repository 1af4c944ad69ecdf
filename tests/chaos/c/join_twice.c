// Joined twice: two threads stop the worker, and both see that nobody has joined it yet.
#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_t worker;
static bool is_joined;

static void *work(void *unused)
{
    return unused;
}

static void stop(void)
{
    pthread_mutex_lock(&mutex);
    bool mine = !is_joined;
#ifndef BUG
    is_joined = true;
#endif
    pthread_mutex_unlock(&mutex);
    if (!mine)
        return;
    assert(pthread_join(worker, NULL) == 0);
#ifdef BUG
    pthread_mutex_lock(&mutex);
    is_joined = true;
    pthread_mutex_unlock(&mutex);
#endif
}

static void *stop_too(void *unused)
{
    stop();
    return unused;
}

int main(void)
{
    pthread_t other;
    pthread_create(&worker, NULL, work, NULL);
    pthread_create(&other, NULL, stop_too, NULL);
    stop();
    pthread_join(other, NULL);
    return 0;
}
