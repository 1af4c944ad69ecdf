// Lost update: an atomic balance is loaded and stored, not added to.
#include <atomic>
#include <cassert>
#include <thread>

static std::atomic<long> balance = 100;

static void book(long amount)
{
#ifdef BUG
    balance = balance + amount;
#else
    balance += amount;
#endif
}

int main()
{
    std::thread clerk([] {
        for (int i = 0; i < 3; i++)
            book(-10);
    });
    for (int i = 0; i < 3; i++)
        book(5);
    clerk.join();
    assert(balance == 85);
}
