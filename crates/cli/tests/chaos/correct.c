/* A bounded queue between two producers and two consumers, with a mutex, two conditions, timeouts and a semaphore; and a
 * barrier, a reader-writer lock, a spin lock and thread-local storage on the way. Nothing is wrong with it. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define ITEMS 6
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, emptied = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t names = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t begin;
static pthread_spinlock_t spin;
static sem_t finished;
static int queue[2], length, sum, spun, named;
static atomic_int left = 2 * ITEMS;
static _Thread_local int own;

static void *produce(void *unused)
{
    pthread_barrier_wait(&begin);
    for (int i = 1; i <= ITEMS; i++) {
        pthread_mutex_lock(&mutex);
        while (length == 2)
            pthread_cond_wait(&emptied, &mutex);
        queue[length++] = i;
        pthread_cond_signal(&filled);
        pthread_mutex_unlock(&mutex);
        own++;
    }
    pthread_rwlock_wrlock(&names);
    named += own - ITEMS;
    pthread_rwlock_unlock(&names);
    sem_post(&finished);
    return unused;
}

static void *consume(void *unused)
{
    pthread_barrier_wait(&begin);
    while (atomic_fetch_sub(&left, 1) > 0) {
        pthread_mutex_lock(&mutex);
        while (length == 0) {
            struct timespec until;
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_sec += 1;
            pthread_cond_timedwait(&filled, &mutex, &until);
        }
        sum += queue[--length];
        pthread_cond_signal(&emptied);
        pthread_mutex_unlock(&mutex);
        pthread_spin_lock(&spin);
        spun++;
        pthread_spin_unlock(&spin);
        usleep(1000);
    }
    sem_post(&finished);
    return unused;
}

int main(void)
{
    pthread_t threads[4];
    pthread_barrier_init(&begin, NULL, 4);
    pthread_spin_init(&spin, 0);
    sem_init(&finished, 0, 0);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, i % 2 ? consume : produce, NULL);
    for (int i = 0; i < 4; i++)
        sem_wait(&finished);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("%d %d\n", sum, spun);
    return sum != ITEMS * (ITEMS + 1) || spun != 2 * ITEMS || named != 0;
}
