// Use after free: an entry is looked up under the lock and read after it, when it may have been evicted and unmapped.
#include <assert.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char *entry;
static int hits;

static void *look_up(void *unused)
{
    char copy[16] = "";
    pthread_mutex_lock(&mutex);
    char *found = entry;
#ifdef BUG
    pthread_mutex_unlock(&mutex);
#endif
    if (found)
        memcpy(copy, found, sizeof copy);
#ifndef BUG
    pthread_mutex_unlock(&mutex);
#endif
    assert(!found || strcmp(copy, "index.html") == 0);
    pthread_mutex_lock(&mutex);
    hits += found != NULL;
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void *evict(void *unused)
{
    pthread_mutex_lock(&mutex);
    char *old = entry;
    entry = NULL;
    pthread_mutex_unlock(&mutex);
    munmap(old, 4096);
    return unused;
}

int main(void)
{
    pthread_t reader, evictor;
    entry = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    strcpy(entry, "index.html");
    pthread_create(&reader, NULL, look_up, NULL);
    pthread_create(&evictor, NULL, evict, NULL);
    pthread_join(reader, NULL);
    pthread_join(evictor, NULL);
    return hits > 1;
}
