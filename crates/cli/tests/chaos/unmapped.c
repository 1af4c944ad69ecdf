/* A page is unmapped between the check whether it is there and the store. The hole is small enough for a later mapping of
 * anybody's. */
#include <pthread.h>
#include <sys/mman.h>

static char *volatile page;

static void *user(void *unused) {
    char *mine = page;
    if (mine) mine[0] = 1;
    return unused;
}

static void *owner(void *unused) {
    char *mine = page;
    page = 0;
    munmap(mine, 4096);
    return unused;
}

int main(void) {
    page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t first, second;
    pthread_create(&first, 0, user, 0);
    pthread_create(&second, 0, owner, 0);
    pthread_join(first, 0);
    pthread_join(second, 0);
}
