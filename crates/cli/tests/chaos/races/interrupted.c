/* Threads that are cancelled or take a signal wherever they are, also about to access something; and memory that is freed and
 * used again at once. Nothing races. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int counted, handled;
static __thread volatile int own;

static void handle(int signal)
{
    (void)signal;
    own++;
}

static void *endless(void *mine)
{
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (;;) {
        ++*(volatile int *)mine;
        sched_yield();
    }
}

static void *passing(void *unused)
{
    for (int i = 0; i < 6; i++) {
        volatile int *mine = malloc(sizeof *mine);
        *mine = i;
        pthread_mutex_lock(&mutex);
        counted += *mine;
        pthread_mutex_unlock(&mutex);
        free((void *)mine);
    }
    handled += own; /* read by none but this thread, and by the first one after the join */
    return unused;
}

int main(void)
{
    pthread_t ended, going;
    int mine = 0;
    signal(SIGUSR1, handle);
    pthread_create(&ended, NULL, endless, &mine);
    pthread_create(&going, NULL, passing, NULL);
    pthread_kill(going, SIGUSR1);
    usleep(5);
    pthread_cancel(ended);
    pthread_join(ended, NULL);
    mine = 0;
    pthread_join(going, NULL);
    return mine + counted != 15 || handled > 1;
}
