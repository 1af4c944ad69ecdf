// Work-stealing deque: the owner takes the last job without asking whether a thief is about to.
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

#define JOBS 3
static atomic_long top, bottom;
static atomic_int done[JOBS];

static long pop(void)
{
    long at = atomic_fetch_sub(&bottom, 1) - 1, first = atomic_load(&top);
    if (at < first) {
        atomic_store(&bottom, first);
        return -1;
    }
    if (at > first)
        return at;
#ifdef BUG
    atomic_store(&top, first + 1);
    int got = 1;
#else
    int got = atomic_compare_exchange_strong(&top, &first, first + 1);
#endif
    atomic_store(&bottom, at + 1);
    return got ? at : -1;
}

static long steal(void)
{
    long first = atomic_load(&top);
    if (first >= atomic_load(&bottom))
        return -1;
    return atomic_compare_exchange_strong(&top, &first, first + 1) ? first : -1;
}

static void run(long job)
{
    if (job >= 0)
        assert(atomic_fetch_add(&done[job], 1) == 0);
}

static void *thief(void *unused)
{
    for (int i = 0; i < 3; i++)
        run(steal());
    return unused;
}

int main(void)
{
    pthread_t other;
    atomic_store(&bottom, JOBS);
    pthread_create(&other, NULL, thief, NULL);
    for (int i = 0; i < JOBS; i++)
        run(pop());
    pthread_join(other, NULL);
    return 0;
}
