/* Two threads whose name is markup lose an update, an hour after the start. */
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>

static volatile int counter;

static void *count(void *unused)
{
    pthread_setname_np(pthread_self(), "<i>&amp;\"");
    int seen = counter;
    counter = seen + 1;
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    sleep(3600);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, count, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return counter != 2;
}
