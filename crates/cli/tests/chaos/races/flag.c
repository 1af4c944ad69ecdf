/* A reader looks at a flag that the writer sets without a lock. */
#include <pthread.h>
#include <stddef.h>

static volatile int ready;
static volatile int seen;

static void *set(void *unused)
{
    ready = 1; /* the store */
    return unused;
}

static void *look(void *unused)
{
    seen = ready; /* the load */
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, set, NULL);
    pthread_create(&threads[1], NULL, look, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return 0;
}
