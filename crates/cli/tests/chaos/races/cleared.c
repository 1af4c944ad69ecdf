/* One thread reads a field of a record on the heap while the C library clears it for another: no instruction of the program's own
 * writes there meanwhile. */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

struct record {
    char name[1024];
    volatile int length;
    char rest[1024];
};

static volatile int sum;
static volatile size_t size = sizeof(struct record);

static void *look(void *record)
{
    sum += ((struct record *)record)->length; /* the load */
    return NULL;
}

static void *clear(void *record)
{
    explicit_bzero(record, size);
    sched_yield();
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    struct record *record = calloc(1, sizeof *record);
    record->length = 7;
    pthread_create(&threads[0], NULL, look, record);
    pthread_create(&threads[1], NULL, clear, record);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    free(record);
    return 0;
}
