// Reader/writer upgrade: between the reader's unlock and the writer's lock somebody else may have inserted the key.
#include <assert.h>
#include <pthread.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static int keys[8], length;

static int has(int key)
{
    for (int i = 0; i < length; i++)
        if (keys[i] == key)
            return 1;
    return 0;
}

static void insert(int key)
{
    pthread_rwlock_rdlock(&lock);
    int there = has(key);
    pthread_rwlock_unlock(&lock);
    if (there)
        return;
    pthread_rwlock_wrlock(&lock);
#ifndef BUG
    if (!has(key))
#endif
        keys[length++] = key;
    pthread_rwlock_unlock(&lock);
}

static void *intern(void *unused)
{
    for (int key = 1; key <= 3; key++)
        insert(key);
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, intern, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert(length == 3);
    return 0;
}
