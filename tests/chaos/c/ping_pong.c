// Missed notification: each player notifies the other before it has given up its own turn.
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t served = PTHREAD_COND_INITIALIZER;
static int turn, strokes;

static void *play(void *argument)
{
    int me = (int)(long)argument;
    for (int i = 0; i < 3; i++) {
        pthread_mutex_lock(&mutex);
        while (turn != me)
            pthread_cond_wait(&served, &mutex);
        strokes++;
#ifdef BUG
        pthread_cond_signal(&served);
        pthread_mutex_unlock(&mutex);
        pthread_mutex_lock(&mutex);
        turn = 1 - me;
#else
        turn = 1 - me;
        pthread_cond_signal(&served);
#endif
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    for (long i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, play, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return strokes != 6;
}
