// Lock order of three: log before index, index before cache, and one path takes the log while it has the cache.
#include <assert.h>
#include <pthread.h>

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t index_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static int written, indexed, cached;

static void *append(void *unused)
{
    pthread_mutex_lock(&log_lock);
    written++;
    pthread_mutex_lock(&index_lock);
    indexed++;
    pthread_mutex_unlock(&index_lock);
    pthread_mutex_unlock(&log_lock);
    return unused;
}

static void *reindex(void *unused)
{
    pthread_mutex_lock(&index_lock);
    indexed++;
    pthread_mutex_lock(&cache_lock);
    cached = 0;
    pthread_mutex_unlock(&cache_lock);
    pthread_mutex_unlock(&index_lock);
    return unused;
}

static void *evict(void *unused)
{
    pthread_mutex_lock(&cache_lock);
    cached--;
#ifdef BUG
    pthread_mutex_lock(&log_lock);
    written++;
    pthread_mutex_unlock(&log_lock);
    pthread_mutex_unlock(&cache_lock);
#else
    pthread_mutex_unlock(&cache_lock);
    pthread_mutex_lock(&log_lock);
    written++;
    pthread_mutex_unlock(&log_lock);
#endif
    return unused;
}

int main(void)
{
    void *(*work[])(void *) = {append, reindex, evict};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, work[i], NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert(written == 2 && indexed == 2);
    return 0;
}
