/* Two threads add to a counter without a lock: a load, an addition and a store. */
#include <pthread.h>

static volatile int counter;

static void *count(void *unused)
{
    for (int i = 0; i < 3; i++)
        counter = counter + 1;
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, count, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return counter != 6;
}
