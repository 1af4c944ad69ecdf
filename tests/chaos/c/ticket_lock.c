// Ticket lock overflow: with fewer slots than threads two tickets wait at the same slot, and the later one may be served first.
#include <assert.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#define THREADS 3
#ifdef BUG
#define SLOTS 2
#else
#define SLOTS 4
#endif
static sem_t may_enter[SLOTS];
static atomic_uint next_ticket;
static unsigned serving;

static void *work(void *unused)
{
    for (int i = 0; i < 2; i++) {
        unsigned ticket = atomic_fetch_add(&next_ticket, 1);
        sem_wait(&may_enter[ticket % SLOTS]);
        assert(serving == ticket);
        serving++;
        sem_post(&may_enter[(ticket + 1) % SLOTS]);
    }
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < SLOTS; i++)
        sem_init(&may_enter[i], 0, i == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
