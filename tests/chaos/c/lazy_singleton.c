// Double-checked locking: the pointer is published before what it points to is complete.
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct table {
    int size;
    char *name;
};
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct table *) shared;

static struct table *get(void)
{
    struct table *table = atomic_load(&shared);
    if (table)
        return table;
    pthread_mutex_lock(&mutex);
    table = atomic_load(&shared);
    if (!table) {
        table = calloc(1, sizeof *table);
#ifdef BUG
        atomic_store(&shared, table);
#endif
        table->name = strdup("symbols");
        table->size = 16;
#ifndef BUG
        atomic_store(&shared, table);
#endif
    }
    pthread_mutex_unlock(&mutex);
    return table;
}

static void *look(void *unused)
{
    struct table *table = get();
    assert(strlen(table->name) == 7 && table->size == 16);
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, look, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    free(get()->name);
    free(get());
    return 0;
}
