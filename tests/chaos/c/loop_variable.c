// Argument on the stack: the thread says that it has begun before it reads its number, which is the loop's own variable.
#include <assert.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#define THREADS 3
static int served[THREADS + 1];
static sem_t started;

static void *serve(void *argument)
{
#ifdef BUG
    sem_post(&started);
#endif
    int number = *(volatile int *)argument;
#ifndef BUG
    sem_post(&started);
#endif
    served[number] = 1;
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    int i;
    sem_init(&started, 0, 0);
    for (i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, serve, &i);
        sem_wait(&started);
        /* Its work is being prepared. */
        for (int j = 0; j < 500; j++)
            access("/", F_OK);
    }
    for (int j = 0; j < THREADS; j++)
        pthread_join(threads[j], NULL);
    for (int j = 0; j < THREADS; j++)
        assert(served[j]);
    return 0;
}
