// Missing signal: wait without a predicate sleeps through a notification that has come before.
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

int main()
{
    std::mutex mutex;
    std::condition_variable arrived;
    std::string message;
    std::thread sender([&] {
        std::lock_guard lock(mutex);
        message = "hello";
        arrived.notify_one();
    });
    {
        std::unique_lock lock(mutex);
#ifdef BUG
        arrived.wait(lock);
#else
        arrived.wait(lock, [&] { return !message.empty(); });
#endif
    }
    sender.join();
    return message != "hello";
}
