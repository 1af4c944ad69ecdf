// Timer against shutdown: what the timer's signal handler uses is taken down before the timer.
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct progress {
    volatile long ticks, done;
};
static struct progress *volatile progress;

static void tick(int number)
{
    (void)number;
    progress->ticks++;
}

int main(void)
{
    timer_t timer;
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
    struct itimerspec every = {{0, 50000}, {0, 50000}};
    progress = calloc(1, sizeof *progress);
    sigaction(SIGRTMIN, &action, NULL);
    if (timer_create(CLOCK_MONOTONIC, &event, &timer))
        return 2;
    timer_settime(timer, 0, &every, NULL);
    for (int i = 0; i < 200; i++) {
        progress->done++;
        access("/", F_OK);
    }
    struct progress *old = progress;
#ifndef BUG
    timer_delete(timer);
#endif
    progress = NULL;
    free(old);
#ifdef BUG
    timer_delete(timer);
#endif
    return 0;
}
