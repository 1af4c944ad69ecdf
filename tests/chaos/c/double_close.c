// Double close: both ends of a connection close the descriptor, the second time it may be somebody else's file.
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static atomic_int connection;

static void disconnect(void)
{
#ifdef BUG
    int fd = atomic_load(&connection);
    atomic_store(&connection, -1);
#else
    int fd = atomic_exchange(&connection, -1);
#endif
    if (fd >= 0)
        close(fd);
}

static void *hang_up(void *unused)
{
    disconnect();
    return unused;
}

static void *save(void *unused)
{
    int file = open("/dev/null", O_WRONLY);
    assert(write(file, "data", 4) == 4);
    assert(close(file) == 0);
    return unused;
}

int main(void)
{
    void *(*work[])(void *) = {hang_up, hang_up, save};
    pthread_t threads[3];
    atomic_store(&connection, open("/dev/null", O_RDWR));
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, work[i], NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
