// Semaphore given back too early: the slot is released before its user has stopped writing to it.
#include <atomic>
#include <cassert>
#include <semaphore>
#include <thread>
#include <vector>

static std::counting_semaphore<2> slots(2);
static std::atomic<int> users;

static void work()
{
    slots.acquire();
    int now = ++users;
    assert(now <= 2);
#ifdef BUG
    slots.release();
    --users;
#else
    --users;
    slots.release();
#endif
}

int main()
{
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++)
        threads.emplace_back(work);
    for (auto &thread : threads)
        thread.join();
}
