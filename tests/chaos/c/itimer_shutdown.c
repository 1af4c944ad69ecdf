// Timer against shutdown: the interval timer is stopped only after the table that its handler fills is gone.
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

static volatile int *volatile histogram;
static volatile sig_atomic_t at;

static void sample(int number)
{
    (void)number;
    histogram[at++ % 64]++;
}

int main(void)
{
    struct sigaction action = {.sa_handler = sample, .sa_flags = SA_RESTART};
    struct itimerval every = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    histogram = calloc(64, sizeof *histogram);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    for (int i = 0; i < 200; i++)
        access("/", F_OK);
    volatile int *old = histogram;
#ifndef BUG
    setitimer(ITIMER_REAL, &never, NULL);
#endif
    histogram = NULL;
    free((void *)old);
#ifdef BUG
    setitimer(ITIMER_REAL, &never, NULL);
#endif
    return 0;
}
