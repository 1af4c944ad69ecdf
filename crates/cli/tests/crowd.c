/* Threads that each wait for something else; the first argument says how many sets of them. Each prints its id and
 * name before it waits; a dot says that all have. The program ends with its input. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static sem_t told, never;
static int ends[2];

static void tell(const char *name)
{
    prctl(PR_SET_NAME, name);
    printf("%ld %s\n", syscall(SYS_gettid), name);
    fflush(stdout);
    sem_post(&told);
}

static void *futex(void *arg)
{
    tell("futex");
    sem_wait(&never);
    return arg;
}

static void *sleeper(void *arg)
{
    struct timespec t = {99, 0};
    tell("sleeper");
    nanosleep(&t, 0);
    return arg;
}

static void *reader(void *arg)
{
    char c;
    tell("reader");
    if (read(ends[0], &c, 1) < 0)
        perror("read");
    return arg;
}

static void *sigwaiter(void *arg)
{
    sigset_t set;
    int signal;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    tell("sigwaiter");
    sigwait(&set, &signal);
    return arg;
}

static void *fifo(void *arg)
{
    struct sched_param param = {33};
    if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &param))
        exit(1);
    tell("fifo");
    pause();
    return arg;
}

int main(int argc, char **argv)
{
    int sets = argc > 1 ? atoi(argv[1]) : 1;
    void *(*kinds[])(void *) = {futex, sleeper, reader, sigwaiter, fifo};
    sigset_t set;
    pthread_attr_t small;
    pthread_t t;
    char c;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, 0);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    if (pipe(ends))
        return 1;
    sem_init(&told, 0, 0);
    sem_init(&never, 0, 0);
    tell("main");
    for (int i = 0; i < sets; i++)
        for (int k = 0; k < 5; k++)
            /* Of many sets only the first reads: a host thread each. */
            if (pthread_create(&t, &small, kinds[i && k == 2 ? 0 : k], 0))
                return 1;
    for (int i = 0; i < 5 * sets + 1; i++)
        sem_wait(&told);
    printf(".\n");
    fflush(stdout);
    while (read(0, &c, 1) > 0)
        ;
    return 0;
}
