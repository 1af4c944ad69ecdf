// Signal for broadcast: readers and writers of a slot wait on one condition, and the signal may wake the wrong kind.
#include <assert.h>
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int slot, sum;

static void wake(void)
{
#ifdef BUG
    pthread_cond_signal(&changed);
#else
    pthread_cond_broadcast(&changed);
#endif
}

static void *put(void *argument)
{
    for (int i = 0; i < 2; i++) {
        pthread_mutex_lock(&mutex);
        while (slot != 0)
            pthread_cond_wait(&changed, &mutex);
        slot = (int)(long)argument;
        wake();
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void *take(void *unused)
{
    for (int i = 0; i < 2; i++) {
        pthread_mutex_lock(&mutex);
        while (slot == 0)
            pthread_cond_wait(&changed, &mutex);
        sum += slot;
        slot = 0;
        wake();
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

int main(void)
{
    pthread_t threads[4];
    for (long i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, i % 2 ? put : take, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert(sum == 2 * 1 + 2 * 3);
    return 0;
}
