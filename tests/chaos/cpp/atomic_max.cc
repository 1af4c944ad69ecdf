// Lost update: the greatest value is stored after a comparison with one that may no longer be there.
#include <atomic>
#include <cassert>
#include <thread>
#include <vector>

static std::atomic<int> greatest;

static void offer(int value)
{
    int seen = greatest.load();
#ifdef BUG
    if (seen < value)
        greatest.store(value);
#else
    while (seen < value && !greatest.compare_exchange_weak(seen, value)) {
    }
#endif
}

int main()
{
    std::vector<std::thread> threads;
    for (int i : {3, 9, 6})
        threads.emplace_back(offer, i);
    for (auto &thread : threads)
        thread.join();
    assert(greatest == 9);
}
