// Check then act: the answer and the cancellation both see an open promise, and the second to set it throws.
#include <atomic>
#include <future>
#include <thread>

int main()
{
    std::promise<int> promise;
    std::atomic<bool> is_set = false;
    auto result = promise.get_future();
    auto set = [&](int value) {
#ifdef BUG
        if (is_set)
            return;
        is_set = true;
#else
        if (is_set.exchange(true))
            return;
#endif
        promise.set_value(value);
    };
    std::thread answer(set, 42);
    std::thread cancellation(set, -1);
    int got = result.get();
    answer.join();
    cancellation.join();
    return got != 42 && got != -1;
}
