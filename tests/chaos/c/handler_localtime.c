// Signal handler and the C library: localtime in a handler waits for the lock of the time zone, which the interrupted thread has.
#include <pthread.h>
#include <signal.h>
#include <time.h>

static time_t started = 1700000000;
static volatile sig_atomic_t asked;

static void note_time(int number)
{
    (void)number;
    asked = 1;
#ifdef BUG
    struct tm now;
    localtime_r(&started, &now);
    asked = now.tm_year;
#endif
}

static void *stamp(void *unused)
{
    struct tm *now = localtime(&started);
    return now && now->tm_year == 123 ? unused : NULL;
}

int main(void)
{
    pthread_t logger;
    void *good;
    struct sigaction action = {.sa_handler = note_time, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    pthread_create(&logger, NULL, stamp, &started);
    pthread_kill(logger, SIGUSR1);
    pthread_join(logger, &good);
    return good == NULL;
}
