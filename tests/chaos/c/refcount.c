// Reference count: the count is lowered and looked at in two steps, so two threads may both see zero and free twice.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct buffer {
    atomic_int references;
    char *bytes;
};

static void put(struct buffer *buffer)
{
#ifdef BUG
    atomic_fetch_sub(&buffer->references, 1);
    if (atomic_load(&buffer->references) == 0) {
#else
    if (atomic_fetch_sub(&buffer->references, 1) == 1) {
#endif
        free(buffer->bytes);
        free(buffer);
    }
}

static void *use(void *argument)
{
    struct buffer *buffer = argument;
    char sum = 0;
    for (int i = 0; i < 8; i++)
        sum += buffer->bytes[i];
    put(buffer);
    return sum ? argument : NULL;
}

int main(void)
{
    pthread_t threads[2];
    struct buffer *buffer = malloc(sizeof *buffer);
    atomic_store(&buffer->references, 2);
    buffer->bytes = calloc(1, 4000);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, use, buffer);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
