/* A reader that comes between two stores which are next to each other sees one without the other. There is no call between. */
#include <pthread.h>
#include <stdlib.h>

static volatile int low, high;

static void *write_both(void *unused)
{
    low = 1;
    high = 1;
    return unused;
}

static void *read_both(void *unused)
{
    int l = low, h = high;
    if (l != h)
        abort();
    return unused;
}

int main(void)
{
    pthread_t writer, reader;
    pthread_create(&writer, NULL, write_both, NULL);
    pthread_create(&reader, NULL, read_both, NULL);
    pthread_join(writer, NULL);
    pthread_join(reader, NULL);
    return 0;
}
