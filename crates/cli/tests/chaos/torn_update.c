// Two threads add to a counter, each by one instruction, which another processor may come between.
#include <pthread.h>

static int hits;

static void *count(void *unused)
{
    (void)unused;
    __asm__ volatile("incl %0" : "+m"(hits));
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, count, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return hits != 2;
}
