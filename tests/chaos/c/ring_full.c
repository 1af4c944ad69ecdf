// Ring buffer off by one: the test for a full ring lets in one item too many, which overwrites the one that is being read.
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <unistd.h>

#define SIZE 2
#define ITEMS 8
static atomic_int slots[SIZE];
static atomic_uint head, tail;
static sem_t begun;

static int is_full(unsigned at)
{
#ifdef BUG
    return at - atomic_load(&tail) > SIZE;
#else
    return at - atomic_load(&tail) >= SIZE;
#endif
}

static void *consume(void *unused)
{
    sem_post(&begun);
    for (int item = 1; item <= ITEMS; item++) {
        unsigned at = atomic_load(&tail);
        while (atomic_load(&head) == at)
            sched_yield();
        assert(atomic_load(&slots[at % SIZE]) == item);
        atomic_store(&tail, at + 1);
    }
    return unused;
}

int main(void)
{
    pthread_t consumer;
    sem_init(&begun, 0, 0);
    pthread_create(&consumer, NULL, consume, NULL);
    sem_wait(&begun);
    for (int item = 1; item <= ITEMS; item++) {
        unsigned at = atomic_load(&head);
        while (is_full(at))
            sched_yield();
        /* It takes a while to make one. */
        for (int i = 0; i < 50; i++)
            access("/", F_OK);
        atomic_store(&slots[at % SIZE], item);
        atomic_store(&head, at + 1);
    }
    pthread_join(consumer, NULL);
    return 0;
}
