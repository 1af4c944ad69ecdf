// Barrier reused: a fast thread enters the barrier again before a slow one has left, and the slow one waits forever.
#include <assert.h>
#include <pthread.h>

#define THREADS 3
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_here = PTHREAD_COND_INITIALIZER;
static int arrived, generation, passed;

static void barrier(void)
{
    pthread_mutex_lock(&mutex);
    int mine = generation;
    if (++arrived == THREADS) {
        arrived = 0;
        generation++;
        pthread_cond_broadcast(&all_here);
    } else {
#ifdef BUG
        (void)mine;
        while (arrived != 0)
#else
        while (generation == mine)
#endif
            pthread_cond_wait(&all_here, &mutex);
    }
    passed++;
    pthread_mutex_unlock(&mutex);
}

static void *step(void *unused)
{
    for (int i = 0; i < 3; i++)
        barrier();
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, step, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert(passed == 3 * THREADS);
    return 0;
}
