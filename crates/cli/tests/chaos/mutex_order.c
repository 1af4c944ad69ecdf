/* Two threads take two mutexes in opposite orders, once each. */
#include <pthread.h>

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static int sum;

static void *forwards(void *unused)
{
    pthread_mutex_lock(&first);
    pthread_mutex_lock(&second);
    sum++;
    pthread_mutex_unlock(&second);
    pthread_mutex_unlock(&first);
    return unused;
}

static void *backwards(void *unused)
{
    pthread_mutex_lock(&second);
    pthread_mutex_lock(&first);
    sum++;
    pthread_mutex_unlock(&first);
    pthread_mutex_unlock(&second);
    return unused;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, NULL, forwards, NULL);
    pthread_create(&b, NULL, backwards, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    return sum != 2;
}
