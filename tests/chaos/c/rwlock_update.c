// Write under a reader's lock: a look-up moves the entry to the front of its list while it only has the lock for reading.
#include <assert.h>
#include <pthread.h>
#include <stddef.h>

struct entry {
    int key;
    struct entry *next;
};
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct entry entries[3] = {{0, &entries[1]}, {1, &entries[2]}, {2, NULL}};
static struct entry *first = &entries[0];

static int look_up(int key)
{
#ifdef BUG
    pthread_rwlock_rdlock(&lock);
#else
    pthread_rwlock_wrlock(&lock);
#endif
    struct entry **at = &first;
    while (*at && (*at)->key != key)
        at = &(*at)->next;
    struct entry *found = *at;
    if (found && found != first) {
        *at = found->next;
        found->next = first;
        first = found;
    }
    pthread_rwlock_unlock(&lock);
    return found != NULL;
}

static void *use(void *unused)
{
    for (int key = 0; key < 3; key++)
        assert(look_up(key));
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, use, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
