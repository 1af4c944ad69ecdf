// Seqlock without retry: the reader looks whether a writer is at work before it reads, but not afterwards.
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static atomic_uint sequence;
static atomic_int x = 1, y = 1;

static void *move(void *unused)
{
    for (int i = 2; i <= 4; i++) {
        atomic_fetch_add(&sequence, 1);
        atomic_store(&x, i);
        atomic_store(&y, i);
        atomic_fetch_add(&sequence, 1);
    }
    return unused;
}

static void look(void)
{
    unsigned before;
    int a, b;
    do {
        while ((before = atomic_load(&sequence)) & 1)
            sched_yield();
        a = atomic_load(&x);
        b = atomic_load(&y);
#ifdef BUG
    } while (0);
#else
    } while (atomic_load(&sequence) != before);
#endif
    assert(a == b);
}

int main(void)
{
    pthread_t mover;
    pthread_create(&mover, NULL, move, NULL);
    for (int i = 0; i < 4; i++)
        look();
    pthread_join(mover, NULL);
    return 0;
}
