// Wrong semaphore count: three threads may enter a pool of two connections.
#include <assert.h>
#include <pthread.h>
#include <semaphore.h>

#define CONNECTIONS 2
static sem_t idle;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int in_use[CONNECTIONS];

static int take(void)
{
    int found = -1;
    sem_wait(&idle);
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < CONNECTIONS && found < 0; i++)
        if (!in_use[i])
            found = i;
    assert(found >= 0);
    in_use[found] = 1;
    pthread_mutex_unlock(&mutex);
    return found;
}

static void *query(void *unused)
{
    int connection = take();
    pthread_mutex_lock(&mutex);
    in_use[connection] = 0;
    pthread_mutex_unlock(&mutex);
    sem_post(&idle);
    return unused;
}

int main(void)
{
    pthread_t threads[4];
#ifdef BUG
    sem_init(&idle, 0, CONNECTIONS + 1);
#else
    sem_init(&idle, 0, CONNECTIONS);
#endif
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, query, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
