// Double-checked locking: the flag that says that the names are loaded is set before they are.
#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <thread>

static std::map<int, std::string> names;
static std::atomic<bool> loaded;
static std::mutex mutex;

static const std::string &name(int number)
{
    if (!loaded.load(std::memory_order_acquire)) {
        std::lock_guard lock(mutex);
        if (!loaded.load(std::memory_order_relaxed)) {
#ifdef BUG
            loaded.store(true, std::memory_order_release);
#endif
            for (int i = 1; i <= 4; i++)
                names.emplace(i, "number " + std::to_string(i));
#ifndef BUG
            loaded.store(true, std::memory_order_release);
#endif
        }
    }
    return names.at(number);
}

int main()
{
    size_t length = 0;
    std::thread other([&] { length = name(4).size(); });
    bool good = name(2) == "number 2";
    other.join();
    return !good || length != 8;
}
