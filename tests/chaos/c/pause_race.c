// Lost wake-up: the signal may come between the look at its flag and pause.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t reload;
static sigset_t mask, none;

static void on_signal(int number)
{
    (void)number;
    reload = 1;
}

static void *serve(void *unused)
{
#ifdef BUG
    pthread_sigmask(SIG_UNBLOCK, &mask, NULL);
    while (!reload)
        pause();
#else
    while (!reload)
        sigsuspend(&none);
#endif
    return unused;
}

int main(void)
{
    pthread_t server;
    struct sigaction action = {.sa_handler = on_signal};
    alarm(5); // whoever sleeps for so long would never wake
    sigaction(SIGUSR1, &action, NULL);
    sigemptyset(&none);
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &mask, NULL);
    pthread_create(&server, NULL, serve, NULL);
    pthread_kill(server, SIGUSR1);
    pthread_join(server, NULL);
    return 0;
}
