// Right: three threads share a lock that is waited for by sleeping for no time, or for hardly any.
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

static atomic_int lock;
static int n;
static long pause_ns;

static void *add(void *a) {
    for (int i = 0; i < 5; i++) {
        while (atomic_exchange(&lock, 1)) nanosleep(&(struct timespec){ 0, pause_ns }, 0);
        int before = n;
        getppid();
        n = before + 1;
        atomic_store(&lock, 0);
    }
    return a;
}

int main(void) {
    for (pause_ns = 0; pause_ns <= 1000; pause_ns += 500) {
        pthread_t t[2];
        for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, add, 0);
        add(0);
        for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
    }
    return n != 45;
}
