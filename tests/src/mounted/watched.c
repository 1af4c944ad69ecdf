/* Threads to be looked at: some have consumed time and wait, one never stops, one ends when it is told to. Each prints its
 * id and name when it is as it will be looked at; a dot says that all are. A byte of the input ends one thread, the input's
 * end the program. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static sem_t told, never, go;

static void tell(const char *name)
{
    prctl(PR_SET_NAME, name);
    printf("%ld %s\n", syscall(SYS_gettid), name);
    fflush(stdout);
    sem_post(&told);
}

static void burn(long ms)
{
    struct timespec t;
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    while (t.tv_sec * 1000 + t.tv_nsec / 1000000 < ms);
}

static void *burnt(void *arg)
{
    burn(250);
    tell("burnt");
    sem_wait(&never);
    return arg;
}

static void *odd(void *arg)
{
    burn(30);
    tell("odd) S 1 (name");
    sem_wait(&never);
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

static void *spinner(void *arg)
{
    tell("spinner");
    for (;;)
        burn(1000000);
    return arg;
}

static void *brief(void *arg)
{
    tell("brief");
    sem_wait(&go);
    return arg;
}

int main(int argc, char **argv)
{
    void *(*kinds[])(void *) = {burnt, odd, fifo, brief, spinner};
    /* Without the last one if somebody says so. */
    int count = argc > 1 ? 4 : 5;
    pthread_t t;
    char c;
    (void)argv;
    sem_init(&told, 0, 0);
    sem_init(&never, 0, 0);
    sem_init(&go, 0, 0);
    tell("watched");
    for (int k = 0; k < count; k++)
        if (pthread_create(&t, 0, kinds[k], 0))
            return 1;
    for (int k = 0; k < count + 1; k++)
        sem_wait(&told);
    printf(".\n");
    fflush(stdout);
    while (read(0, &c, 1) > 0)
        sem_post(&go);
    return 0;
}
