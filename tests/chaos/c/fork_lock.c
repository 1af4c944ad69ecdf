// Fork with a held lock: the child inherits a mutex that another thread had, and nobody there will give it back.
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int entries;

static void *insert(void *unused)
{
    for (int i = 0; i < 3; i++) {
        pthread_mutex_lock(&mutex);
        entries++;
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

static int count_in_child(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    if (pthread_mutex_timedlock(&mutex, &until) != 0)
        return 1;
    int seen = entries;
    pthread_mutex_unlock(&mutex);
    return seen > 3;
}

int main(void)
{
    pthread_t inserter;
    int status;
    pthread_create(&inserter, NULL, insert, NULL);
#ifndef BUG
    pthread_mutex_lock(&mutex);
#endif
    pid_t child = fork();
#ifndef BUG
    pthread_mutex_unlock(&mutex);
#endif
    if (child == 0)
        _exit(count_in_child());
    waitpid(child, &status, 0);
    pthread_join(inserter, NULL);
    return status != 0;
}
