/* Two threads add to a counter without a lock. Each addition is a load and a store, and who adds last hides the other's. */
#include <pthread.h>
#include <stddef.h>

static long before[4];
static volatile long counter;

static void *add(void *unused)
{
    for (int i = 0; i < 3; i++)
        counter++; /* the update */
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, add, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    before[0] = counter;
    return 0;
}
