// Ticket lock overflow: an array lock with fewer slots than threads gives the same slot to two that wait.
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define THREADS 3
#ifdef BUG
#define SLOTS 2
#else
#define SLOTS 4
#endif
static atomic_int may_enter[SLOTS];
static atomic_uint next_ticket;
static atomic_int inside;

static void *work(void *unused)
{
    for (int i = 0; i < 2; i++) {
        unsigned ticket = atomic_fetch_add(&next_ticket, 1);
        while (!atomic_load(&may_enter[ticket % SLOTS]))
            sched_yield();
        atomic_store(&may_enter[ticket % SLOTS], 0);
        assert(atomic_fetch_add(&inside, 1) == 0);
        atomic_fetch_sub(&inside, 1);
        atomic_store(&may_enter[(ticket + 1) % SLOTS], 1);
    }
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS];
    atomic_store(&may_enter[0], 1);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
