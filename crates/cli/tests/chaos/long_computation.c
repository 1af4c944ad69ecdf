/* Two threads that compute for longer than a thread may without a scheduling point; an update that is lost if one of them is
 * stopped in between. */
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int count;

/* Some milliseconds, without an access to memory. */
static void compute(unsigned rounds) {
    while (rounds--) __asm__ volatile("");
}

static int look(void) {
    pthread_mutex_lock(&mutex);
    int seen = count;
    pthread_mutex_unlock(&mutex);
    return seen;
}

static void *adds(void *argument) {
    for (int i = 0; i < 3; i++) {
        compute(20000000);
        int seen = look();
        compute(2000000);
        pthread_mutex_lock(&mutex);
        count = seen + 1;
        pthread_mutex_unlock(&mutex);
    }
    return argument;
}

int main(void) {
    pthread_t one, other;
    pthread_create(&one, 0, adds, 0);
    pthread_create(&other, 0, adds, 0);
    pthread_join(one, 0);
    pthread_join(other, 0);
    return count == 6 ? 0 : 3;
}
