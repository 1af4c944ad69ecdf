// Timer against shutdown: timer_delete does not wait for a callback that has begun, and the context is freed under it.
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct context {
    pthread_mutex_t mutex;
    int *samples;
    int count;
};
static int buffer[16];
static struct context context = {PTHREAD_MUTEX_INITIALIZER, buffer, 0};

static void sample(union sigval unused)
{
    (void)unused;
#ifdef BUG
    if (context.samples) {
        pthread_mutex_lock(&context.mutex);
#else
    pthread_mutex_lock(&context.mutex);
    if (context.samples) {
#endif
        context.samples[context.count++ % 16] = 1;
#ifdef BUG
        pthread_mutex_unlock(&context.mutex);
    }
#else
    }
    pthread_mutex_unlock(&context.mutex);
#endif
}

int main(void)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = sample};
    struct itimerspec every = {{0, 1000000}, {0, 1000000}};
    assert(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    timer_settime(timer, 0, &every, NULL);
    usleep(3000);
    timer_delete(timer);
    pthread_mutex_lock(&context.mutex);
    context.samples = NULL;
    pthread_mutex_unlock(&context.mutex);
    usleep(10000);
    return 0;
}
