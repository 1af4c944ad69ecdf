// Timeout taken for success: the wait for an answer ends after half a second, and nobody looks whether there is one.
#include <assert.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, line = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t answered = PTHREAD_COND_INITIALIZER;
static int answer;

/* Tries again later if the line is busy. */
static void *ask(void *unused)
{
    while (pthread_mutex_trylock(&line) != 0)
        usleep(600000);
    pthread_mutex_unlock(&line);
    pthread_mutex_lock(&mutex);
    answer = 42;
    pthread_cond_signal(&answered);
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void *chat(void *unused)
{
    pthread_mutex_lock(&line);
    pthread_mutex_unlock(&line);
    return unused;
}

int main(void)
{
    pthread_t asker, chatter;
    struct timespec until;
    pthread_create(&asker, NULL, ask, NULL);
    pthread_create(&chatter, NULL, chat, NULL);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 500000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&mutex);
    int timed_out = 0;
    while (answer == 0 && !timed_out)
        timed_out = pthread_cond_timedwait(&answered, &mutex, &until) != 0;
#ifdef BUG
    assert(answer == 42);
#else
    assert(timed_out || answer == 42);
#endif
    pthread_mutex_unlock(&mutex);
    pthread_join(asker, NULL);
    pthread_join(chatter, NULL);
    return 0;
}
