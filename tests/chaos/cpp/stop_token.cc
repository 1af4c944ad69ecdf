// Lost wake-up: the worker asks for stop once more before it sleeps, but the stop is notified without the mutex.
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

int main()
{
    std::mutex mutex;
#ifdef BUG
    std::condition_variable idle;
#else
    std::condition_variable_any idle;
#endif
    int rounds = 0;
    std::jthread worker([&](std::stop_token stop) {
        std::unique_lock lock(mutex);
        while (!stop.stop_requested()) {
            rounds++;
#ifdef BUG
            idle.wait(lock);
#else
            idle.wait(lock, stop, [] { return false; });
#endif
        }
    });
    worker.request_stop();
    idle.notify_all();
    worker.join();
    return rounds > 1;
}
