/* Each thread sees that there is a ticket left, under the mutex, and takes it under the mutex: but not under the same hold. */
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int tickets = 1;

static void *buy(void *unused)
{
    pthread_mutex_lock(&mutex);
    int left = tickets;
    pthread_mutex_unlock(&mutex);
    if (left > 0) {
        pthread_mutex_lock(&mutex);
        tickets--;
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, buy, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return tickets < 0 ? 3 : 0;
}
