// Wait without a loop: a consumer that was woken finds that another one has taken the item meanwhile.
#include <assert.h>
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static int items[4], length;

static void *consume(void *unused)
{
    pthread_mutex_lock(&mutex);
#ifdef BUG
    if (length == 0)
#else
    while (length == 0)
#endif
        pthread_cond_wait(&filled, &mutex);
    assert(length > 0);
    assert(items[--length] > 0);
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void produce(int item)
{
    pthread_mutex_lock(&mutex);
    items[length++] = item;
    pthread_cond_signal(&filled);
    pthread_mutex_unlock(&mutex);
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, consume, NULL);
    produce(1);
    produce(2);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
