// RCU freed too early: the updater waits for readers to leave before it has replaced the pointer, not after.
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

struct config {
    atomic_int is_valid;
};
static _Atomic(struct config *) current;
static atomic_int readers;
static struct config versions[2];

static void *look(void *unused)
{
    for (int i = 0; i < 3; i++) {
        atomic_fetch_add(&readers, 1);
        struct config *config = atomic_load(&current);
        assert(atomic_load(&config->is_valid));
        atomic_fetch_sub(&readers, 1);
    }
    return unused;
}

static void wait_for_readers(void)
{
    while (atomic_load(&readers) != 0)
        sched_yield();
}

int main(void)
{
    pthread_t reader;
    struct config *old = &versions[0], *new = &versions[1];
    atomic_store(&old->is_valid, 1);
    atomic_store(&new->is_valid, 1);
    atomic_store(&current, old);
    pthread_create(&reader, NULL, look, NULL);
#ifdef BUG
    wait_for_readers();
    atomic_store(&current, new);
#else
    atomic_store(&current, new);
    wait_for_readers();
#endif
    atomic_store(&old->is_valid, 0); // it goes back to the allocator
    pthread_join(reader, NULL);
    return 0;
}
