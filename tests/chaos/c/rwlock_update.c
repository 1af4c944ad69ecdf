// Lost update: a counter is raised under the reader's lock, which others hold at the same time.
#include <assert.h>
#include <pthread.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct {
    long value;
    long reads;
} entry = {5, 0};

static long get(void)
{
#ifdef BUG
    pthread_rwlock_rdlock(&lock);
#else
    pthread_rwlock_wrlock(&lock);
#endif
    long value = entry.value;
    entry.reads++;
    pthread_rwlock_unlock(&lock);
    return value;
}

static void *read_often(void *unused)
{
    long sum = 0;
    for (int i = 0; i < 5; i++)
        sum += get();
    assert(sum == 25);
    return unused;
}

int main(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, read_often, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert(entry.reads == 15);
    return 0;
}
