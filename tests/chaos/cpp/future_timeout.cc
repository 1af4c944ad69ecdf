// Timeout taken for success: wait_for may end before the result is there, but the result is used.
#include <cassert>
#include <chrono>
#include <future>
#include <mutex>
#include <thread>

using namespace std::chrono_literals;

int main()
{
    std::mutex disk;
    int loaded = 0;
    std::promise<void> finished;
    auto future = finished.get_future();
    std::thread loader([&] {
        while (!disk.try_lock())
            std::this_thread::sleep_for(1s);
        loaded = 5;
        disk.unlock();
        finished.set_value();
    });
    std::thread backup([&] { std::lock_guard lock(disk); });
    auto status = future.wait_for(500ms);
#ifdef BUG
    (void)status;
    assert(loaded == 5);
#else
    if (status == std::future_status::ready)
        assert(loaded == 5);
#endif
    loader.join();
    backup.join();
}
