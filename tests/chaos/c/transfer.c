// Lock order: a transfer locks the giving account first, so two transfers in opposite directions wait for each other.
#include <assert.h>
#include <pthread.h>

struct account {
    pthread_mutex_t lock;
    int id;
    long balance;
};

static struct account alice = {PTHREAD_MUTEX_INITIALIZER, 1, 100}, bob = {PTHREAD_MUTEX_INITIALIZER, 2, 100};

static void transfer(struct account *from, struct account *to, long amount)
{
    struct account *first = from, *second = to;
#ifndef BUG
    if (first->id > second->id) {
        first = to;
        second = from;
    }
#endif
    pthread_mutex_lock(&first->lock);
    pthread_mutex_lock(&second->lock);
    from->balance -= amount;
    to->balance += amount;
    pthread_mutex_unlock(&second->lock);
    pthread_mutex_unlock(&first->lock);
}

static void *pay(void *unused)
{
    for (int i = 1; i <= 3; i++)
        transfer(&alice, &bob, i);
    return unused;
}

int main(void)
{
    pthread_t payer;
    pthread_create(&payer, NULL, pay, NULL);
    for (int i = 1; i <= 3; i++)
        transfer(&bob, &alice, 2 * i);
    pthread_join(payer, NULL);
    assert(alice.balance == 106 && bob.balance == 94);
    return 0;
}
