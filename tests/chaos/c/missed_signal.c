// Missing signal: the waiter looks at the flag, lets go of the mutex, and takes it again to wait.
#include <pthread.h>
#include <stdbool.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t loaded = PTHREAD_COND_INITIALIZER;
static bool is_loaded;
static int setting;

static bool check(void)
{
    pthread_mutex_lock(&mutex);
    bool now = is_loaded;
    pthread_mutex_unlock(&mutex);
    return now;
}

static void *load(void *unused)
{
    pthread_mutex_lock(&mutex);
    setting = 42;
    is_loaded = true;
    pthread_cond_signal(&loaded);
    pthread_mutex_unlock(&mutex);
    return unused;
}

int main(void)
{
    pthread_t loader;
    pthread_create(&loader, NULL, load, NULL);
#ifdef BUG
    if (!check()) {
        pthread_mutex_lock(&mutex);
        pthread_cond_wait(&loaded, &mutex);
        pthread_mutex_unlock(&mutex);
    }
#else
    pthread_mutex_lock(&mutex);
    while (!is_loaded)
        pthread_cond_wait(&loaded, &mutex);
    pthread_mutex_unlock(&mutex);
#endif
    pthread_join(loader, NULL);
    return check() && setting == 42 ? 0 : 1;
}
