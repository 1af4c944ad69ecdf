// Signal handler and malloc: the handler allocates while the thread it interrupts is within malloc.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static volatile sig_atomic_t seen;
static char *volatile note;

static void remember(int number)
{
    (void)number;
#ifdef BUG
    char *text = malloc(100);
    strcpy(text, "interrupted");
    note = text;
#endif
    seen = 1;
}

static void *build(void *unused)
{
    char *pieces[200];
    for (int i = 0; i < 200; i++) {
        pieces[i] = malloc(20000);
        memset(pieces[i], i, 20000);
    }
    for (int i = 0; i < 200; i++)
        free(pieces[i]);
    return unused;
}

int main(void)
{
    pthread_t builder;
    struct sigaction action = {.sa_handler = remember, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    pthread_create(&builder, NULL, build, NULL);
    pthread_kill(builder, SIGUSR1);
    pthread_join(builder, NULL);
    free(note);
    return 0;
}
