// ABA: a lock-free free list compares addresses only, and the same address may have come back with another successor.
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define NODES 3
struct node {
    _Atomic uint32_t next; // the number of the next node plus one, or 0
    atomic_int owners;
};
static struct node nodes[NODES];
static _Atomic uint64_t top; // the number of a node plus one; above it how often it has changed

static uint64_t retag(uint64_t old, uint32_t node)
{
#ifdef BUG
    (void)old;
    return node;
#else
    return ((old >> 32) + 1) << 32 | node;
#endif
}

static uint32_t pop(void)
{
    uint64_t old = atomic_load(&top);
    uint32_t node;
    do {
        node = (uint32_t)old;
        if (node == 0)
            return 0;
    } while (!atomic_compare_exchange_strong(&top, &old, retag(old, atomic_load(&nodes[node - 1].next))));
    assert(atomic_fetch_add(&nodes[node - 1].owners, 1) == 0);
    return node;
}

static void push(uint32_t node)
{
    uint64_t old = atomic_load(&top);
    atomic_fetch_sub(&nodes[node - 1].owners, 1);
    do
        atomic_store(&nodes[node - 1].next, (uint32_t)old);
    while (!atomic_compare_exchange_strong(&top, &old, retag(old, node)));
}

static void *use(void *unused)
{
    for (int i = 0; i < 3; i++) {
        uint32_t a = pop(), b = pop();
        if (a)
            push(a);
        if (b)
            push(b);
    }
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    for (uint32_t i = 1; i <= NODES; i++)
        push((atomic_store(&nodes[i - 1].owners, 1), i));
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, use, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
