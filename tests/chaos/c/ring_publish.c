// Publication: the producer moves the index of the ring on before it has written the slot.
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define SIZE 4
static atomic_int slots[SIZE];
static atomic_uint head, tail;

static void *produce(void *unused)
{
    for (int item = 1; item <= 6; item++) {
        unsigned at = atomic_load(&head);
        while (at - atomic_load(&tail) == SIZE)
            sched_yield();
#ifdef BUG
        atomic_store(&head, at + 1);
        atomic_store(&slots[at % SIZE], item);
#else
        atomic_store(&slots[at % SIZE], item);
        atomic_store(&head, at + 1);
#endif
    }
    return unused;
}

int main(void)
{
    pthread_t producer;
    pthread_create(&producer, NULL, produce, NULL);
    for (int item = 1; item <= 6; item++) {
        unsigned at = atomic_load(&tail);
        while (atomic_load(&head) == at)
            sched_yield();
        assert(atomic_load(&slots[at % SIZE]) == item);
        atomic_store(&tail, at + 1);
    }
    pthread_join(producer, NULL);
    return 0;
}
