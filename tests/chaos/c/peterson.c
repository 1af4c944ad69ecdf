// Mutual exclusion without a turn: each thread looks at the other's flag before it raises its own.
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static atomic_int wants[2], inside;
#ifndef BUG
static atomic_int turn;
#endif

static void enter(int me)
{
    int other = 1 - me;
#ifdef BUG
    while (atomic_load(&wants[other]))
        sched_yield();
    atomic_store(&wants[me], 1);
#else
    atomic_store(&wants[me], 1);
    atomic_store(&turn, other);
    while (atomic_load(&wants[other]) && atomic_load(&turn) == other)
        sched_yield();
#endif
}

static void *work(void *argument)
{
    int me = (int)(long)argument;
    for (int i = 0; i < 3; i++) {
        enter(me);
        assert(atomic_fetch_add(&inside, 1) == 0);
        atomic_fetch_sub(&inside, 1);
        atomic_store(&wants[me], 0);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    for (long i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
