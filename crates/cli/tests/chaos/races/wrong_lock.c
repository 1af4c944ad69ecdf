/* Each writer has a lock, but not the same one. */
#include <pthread.h>
#include <stddef.h>

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static volatile int table[4];

static void *under_one(void *unused)
{
    pthread_mutex_lock(&one);
    table[2] = 1; /* the store */
    pthread_mutex_unlock(&one);
    return unused;
}

static void *under_other(void *unused)
{
    pthread_mutex_lock(&other);
    table[2] = 2; /* the other store */
    pthread_mutex_unlock(&other);
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, under_one, NULL);
    pthread_create(&threads[1], NULL, under_other, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return 0;
}
