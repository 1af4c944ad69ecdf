// Dining philosophers: all four take the left fork first, so each may hold one and wait for the next.
#include <assert.h>
#include <pthread.h>

#define SEATS 4
static pthread_mutex_t forks[SEATS];
static int meals[SEATS];

static void *dine(void *argument)
{
    long seat = (long)argument;
    long first = seat, second = (seat + 1) % SEATS;
#ifndef BUG
    if (first > second) {
        first = second;
        second = seat;
    }
#endif
    for (int i = 0; i < 2; i++) {
        pthread_mutex_lock(&forks[first]);
        pthread_mutex_lock(&forks[second]);
        meals[seat]++;
        pthread_mutex_unlock(&forks[second]);
        pthread_mutex_unlock(&forks[first]);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[SEATS];
    for (int i = 0; i < SEATS; i++)
        pthread_mutex_init(&forks[i], NULL);
    for (long i = 0; i < SEATS; i++)
        pthread_create(&threads[i], NULL, dine, (void *)i);
    for (int i = 0; i < SEATS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < SEATS; i++)
        assert(meals[i] == 2);
    return 0;
}
