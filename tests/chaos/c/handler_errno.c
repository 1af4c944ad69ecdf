// Errno in a handler: the handler's own failing call replaces the error that the interrupted code is about to look at.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static pthread_mutex_t statistics = PTHREAD_MUTEX_INITIALIZER;
static int empty, wake[2];

static void on_signal(int number)
{
    (void)number;
#ifdef BUG
    (void)!write(-1, "!", 1);
#else
    int saved = errno;
    (void)!write(-1, "!", 1);
    errno = saved;
#endif
}

static void *poll_once(void *failed)
{
    char byte;
    for (int i = 0; i < 3; i++) {
        if (read(wake[0], &byte, 1) < 0) {
            pthread_mutex_lock(&statistics);
            empty++;
            pthread_mutex_unlock(&statistics);
            if (errno != EAGAIN && errno != EINTR)
                return failed;
        }
    }
    return NULL;
}

int main(void)
{
    pthread_t poller;
    void *failed;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    if (pipe2(wake, O_NONBLOCK))
        return 2;
    pthread_create(&poller, NULL, poll_once, wake);
    pthread_kill(poller, SIGUSR1);
    pthread_join(poller, &failed);
    return failed != NULL;
}
