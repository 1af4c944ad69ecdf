// Trylock ignored: whether the lock was got is not looked at, so somebody else's is given back and updates are lost.
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int hits;

static int begin(void)
{
    int busy = pthread_mutex_trylock(&mutex);
#ifdef BUG
    (void)busy;
    return 1;
#else
    return !busy;
#endif
}

static void *count(void *argument)
{
    int *own = argument;
    for (int i = 0; i < 4; i++) {
        if (!begin())
            continue;
        hits = hits + 1;
        (*own)++;
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    int own[2] = {0, 0};
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, count, &own[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return hits != own[0] + own[1];
}
