/* Two threads count, each with many system calls between its read and its write, so that the host's clock often comes just
 * before a call. */
#include <pthread.h>
#include <unistd.h>

static int count;

static void *add(void *unused)
{
    int before = count;
    for (int i = 0; i < 20000; i++)
        access("/", F_OK);
    count = before + 1;
    return unused;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, NULL, add, NULL);
    pthread_create(&b, NULL, add, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    return count != 2;
}
