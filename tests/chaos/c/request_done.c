// Use after free: the request is marked as done before its worker has let go of it, and its owner unmaps it.
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

struct request {
    pthread_mutex_t mutex;
    pthread_cond_t answered;
    atomic_int is_done;
    int answer;
};

static void *answer(void *argument)
{
    struct request *request = argument;
#ifdef BUG
    request->answer = 42;
    atomic_store(&request->is_done, 1);
    pthread_mutex_lock(&request->mutex);
#else
    pthread_mutex_lock(&request->mutex);
    request->answer = 42;
    atomic_store(&request->is_done, 1);
#endif
    pthread_cond_signal(&request->answered);
    pthread_mutex_unlock(&request->mutex);
    return NULL;
}

int main(void)
{
    pthread_t worker;
    struct request *request = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_mutex_init(&request->mutex, NULL);
    pthread_cond_init(&request->answered, NULL);
    pthread_create(&worker, NULL, answer, request);
    pthread_mutex_lock(&request->mutex);
    while (!atomic_load(&request->is_done))
        pthread_cond_wait(&request->answered, &request->mutex);
    int got = request->answer;
    pthread_mutex_unlock(&request->mutex);
#ifndef BUG
    pthread_join(worker, NULL);
#endif
    munmap(request, 4096);
#ifdef BUG
    pthread_join(worker, NULL);
#endif
    return got != 42;
}
