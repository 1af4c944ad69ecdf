// Thread-local destructor: it runs when the detached thread ends, which is after the thread said that it is done.
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

struct statistics {
    long total;
};
static struct statistics *volatile statistics;
static pthread_key_t key;
static sem_t finished;

static void flush(void *count)
{
    statistics->total += (long)count;
#ifndef BUG
    sem_post(&finished);
#endif
}

static void *work(void *unused)
{
    pthread_setspecific(key, (void *)3L);
#ifdef BUG
    sem_post(&finished);
#endif
    return unused;
}

int main(void)
{
    pthread_t worker;
    statistics = calloc(1, sizeof *statistics);
    sem_init(&finished, 0, 0);
    pthread_key_create(&key, flush);
    pthread_create(&worker, NULL, work, NULL);
    pthread_detach(worker);
    sem_wait(&finished);
    struct statistics *old = statistics;
    statistics = NULL;
    free(old);
    pthread_exit(NULL);
}
