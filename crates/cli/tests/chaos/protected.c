/* One thread adds to a word. Another one takes the word's value, as garbage collectors do: it takes the page's rights away, for which
 * the host waits until every processor has completed its instruction, and reads and clears the word in another mapping. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROUNDS 40

static long *word, *alias;
static long taken;
static atomic_int is_closed;

static void wait_until_open(int signal)
{
    (void)signal;
    while (atomic_load(&is_closed))
        sched_yield();
}

static void *add(void *unused)
{
    for (int i = 0; i < ROUNDS; i++)
        __asm__ volatile("addq $1, %0" : "+m"(*word));
    return unused;
}

static void *take(void *unused)
{
    for (int i = 0; i < 5; i++) {
        atomic_store(&is_closed, 1);
        mprotect(word, 4096, PROT_NONE);
        taken += *alias;
        *alias = 0;
        mprotect(word, 4096, PROT_READ | PROT_WRITE);
        atomic_store(&is_closed, 0);
        sched_yield();
    }
    return unused;
}

int main(void)
{
    pthread_t one, other;
    struct sigaction action = {.sa_handler = wait_until_open, .sa_flags = SA_NODEFER};
    int file = memfd_create("word", 0);
    if (ftruncate(file, 4096))
        return 1;
    word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    alias = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    sigaction(SIGSEGV, &action, NULL);
    pthread_create(&one, NULL, add, NULL);
    pthread_create(&other, NULL, take, NULL);
    pthread_join(one, NULL);
    pthread_join(other, NULL);
    return taken + *alias == ROUNDS ? 0 : 3;
}
