/* Two threads that compute for longer than a thread may without a scheduling point, in the middle of an update, which is lost if
 * the other one runs meanwhile. */
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int count;

/* More than 10 ms, without an access to memory. */
static void compute(void) {
    for (unsigned rounds = 60000000; rounds > 0; rounds--) __asm__ volatile("");
}

static int look(void) {
    pthread_mutex_lock(&mutex);
    int seen = count;
    pthread_mutex_unlock(&mutex);
    return seen;
}

static void *adds(void *argument) {
    int seen = look();
    compute();
    pthread_mutex_lock(&mutex);
    count = seen + 1;
    pthread_mutex_unlock(&mutex);
    return argument;
}

int main(void) {
    pthread_t one, other;
    pthread_create(&one, 0, adds, 0);
    pthread_create(&other, 0, adds, 0);
    pthread_join(one, 0);
    pthread_join(other, 0);
    return count == 2 ? 0 : 3;
}
