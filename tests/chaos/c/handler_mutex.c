// Signal handler and lock: the handler takes the mutex that the thread it interrupts may hold.
#include <pthread.h>
#include <signal.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long requests, reports;

static void report(int number)
{
    (void)number;
    pthread_mutex_lock(&mutex);
    reports++;
    pthread_mutex_unlock(&mutex);
}

static void *serve(void *unused)
{
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    for (int i = 0; i < 3; i++) {
#ifndef BUG
        pthread_sigmask(SIG_BLOCK, &mask, NULL);
#endif
        pthread_mutex_lock(&mutex);
        requests++;
        pthread_mutex_unlock(&mutex);
#ifndef BUG
        pthread_sigmask(SIG_UNBLOCK, &mask, NULL);
#endif
    }
    return unused;
}

int main(void)
{
    pthread_t server;
    struct sigaction action = {.sa_handler = report, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    pthread_create(&server, NULL, serve, NULL);
    pthread_kill(server, SIGUSR1);
    pthread_join(server, NULL);
    return requests != 3 || reports > 1;
}
