// Cancellation with a held lock: the thread may be cancelled in the write, and nobody gives the mutex back.
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int log_file;

static void unlock(void *lock)
{
    pthread_mutex_unlock(lock);
}

static void *log_lines(void *unused)
{
    for (int i = 0; i < 3; i++) {
        pthread_mutex_lock(&mutex);
#ifndef BUG
        pthread_cleanup_push(unlock, &mutex);
        (void)!write(log_file, "line\n", 5);
        pthread_cleanup_pop(1);
#else
        (void)!write(log_file, "line\n", 5);
        unlock(&mutex);
#endif
    }
    return unused;
}

int main(void)
{
    pthread_t logger;
    log_file = open("/dev/null", O_WRONLY);
    pthread_create(&logger, NULL, log_lines, NULL);
    pthread_cancel(logger);
    pthread_join(logger, NULL);
    pthread_mutex_lock(&mutex);
    close(log_file);
    pthread_mutex_unlock(&mutex);
    return 0;
}
