/* Everything that orders the accesses of threads, each with data that is written before and read after it: creating and joining
 * threads, a mutex with a condition, a reader-writer lock, semaphores, a barrier, a spin lock, atomic operations; and data of
 * one thread each. Nothing races. */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

#define THREADS 3
static volatile int before, counted, turn, named, posted[THREADS], met[THREADS], spun, flagged;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t names = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_spinlock_t spin;
static sem_t posts[THREADS];
static atomic_int added, lock;
static _Thread_local volatile int own;

/* A lock of the program's own, as simple as it can be. */
static void with_flag(void)
{
    while (atomic_exchange(&lock, 1))
        sched_yield();
    flagged++;
    atomic_store(&lock, 0);
}

static void *work(void *argument)
{
    int me = *(int *)argument;
    volatile int local = before;
    for (int i = 0; i < 3; i++) {
        pthread_mutex_lock(&mutex);
        counted += before;
        pthread_mutex_unlock(&mutex);
        if (me == 0)
            pthread_rwlock_wrlock(&names), named++;
        else
            pthread_rwlock_rdlock(&names), local += named;
        pthread_rwlock_unlock(&names);
        pthread_spin_lock(&spin);
        spun++;
        pthread_spin_unlock(&spin);
        atomic_fetch_add(&added, 1);
        local += atomic_load(&added);
        with_flag();
        own += local;
    }
    met[me] = own;
    pthread_barrier_wait(&barrier);
    local += met[(me + 1) % THREADS];
    posted[me] = local;
    sem_post(&posts[me]);
    pthread_mutex_lock(&mutex);
    while (turn != me)
        pthread_cond_wait(&turned, &mutex);
    turn++;
    pthread_cond_broadcast(&turned);
    pthread_mutex_unlock(&mutex);
    int *result = malloc(sizeof *result);
    *result = local;
    free(argument);
    return result;
}

int main(void)
{
    pthread_t threads[THREADS];
    int sum = 0;
    pthread_barrier_init(&barrier, NULL, THREADS);
    pthread_spin_init(&spin, 0);
    before = 1;
    for (int i = 0; i < THREADS; i++) {
        int *argument = malloc(sizeof *argument);
        *argument = i;
        sem_init(&posts[i], 0, 0);
        pthread_create(&threads[i], NULL, work, argument);
    }
    for (int i = 0; i < THREADS; i++) {
        sem_wait(&posts[i]);
        sum += posted[i];
    }
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        sum += *(int *)result;
        free(result);
    }
    return sum == 0 || counted != 3 * THREADS || spun != counted || flagged != counted || turn != THREADS;
}
