// Lost update: two threads append to one vector without a lock, and one element or the buffer is lost.
#include <cassert>
#include <mutex>
#include <thread>
#include <vector>

static std::vector<long> results;
static std::mutex mutex;

static void compute(int from)
{
    for (int i = from; i < from + 3; i++) {
#ifndef BUG
        std::lock_guard lock(mutex);
#endif
        results.push_back(i * i);
    }
}

int main()
{
    results.reserve(2);
    std::thread other(compute, 10);
    compute(20);
    other.join();
    long sum = 0;
    for (long result : results)
        sum += result;
    assert(results.size() == 6 && sum == 100 + 121 + 144 + 400 + 441 + 484);
}
