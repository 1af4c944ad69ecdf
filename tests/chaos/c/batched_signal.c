// Missing signal: the producer signals only if the queue was empty, though two consumers may wait.
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static int length;

static void *consume(void *unused)
{
    pthread_mutex_lock(&mutex);
    while (length == 0)
        pthread_cond_wait(&filled, &mutex);
    length--;
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void produce(void)
{
    pthread_mutex_lock(&mutex);
    length++;
#ifdef BUG
    if (length == 1)
#endif
        pthread_cond_signal(&filled);
    pthread_mutex_unlock(&mutex);
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, consume, NULL);
    produce();
    produce();
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return length;
}
