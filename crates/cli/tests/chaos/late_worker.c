/* The sleep is taken to be long enough for the worker: on a busy machine it is not. */
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int done;

static void *work(void *unused)
{
    for (int i = 0; i < 20; i++) {
        pthread_mutex_lock(&mutex);
        done++;
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

int main(void)
{
    pthread_t worker;
    pthread_create(&worker, NULL, work, NULL);
    usleep(500);
    pthread_mutex_lock(&mutex);
    int is_done = done == 20;
    pthread_mutex_unlock(&mutex);
    pthread_join(worker, NULL);
    return is_done ? 0 : 3;
}
