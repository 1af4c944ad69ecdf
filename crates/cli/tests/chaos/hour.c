/* Two threads sleep for an hour, and every clock says so; a timed wait ends in its time. */
#include <errno.h>
#include <pthread.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static int failed;

static void *sleep_long(void *unused)
{
    struct timespec a, b;
    struct timeval c, d;
    time_t e = time(NULL);
    clock_gettime(CLOCK_MONOTONIC, &a);
    gettimeofday(&c, NULL);
    if (sleep(3600))
        failed = 1;
    clock_gettime(CLOCK_MONOTONIC, &b);
    gettimeofday(&d, NULL);
    if (b.tv_sec - a.tv_sec < 3600 || b.tv_sec - a.tv_sec > 3601)
        failed = 2;
    if (d.tv_sec - c.tv_sec < 3600 || time(NULL) - e > 3602)
        failed = 3;
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    struct timespec until;
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, sleep_long, NULL);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1800;
    pthread_mutex_lock(&mutex);
    while (pthread_cond_timedwait(&never, &mutex, &until) != ETIMEDOUT)
        ;
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return failed;
}
