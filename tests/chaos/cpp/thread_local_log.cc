// Thread-local destructor: a thread's log is written when the thread ends, after it told that its work is complete.
#include <cassert>
#include <mutex>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

static std::mutex mutex;
static std::vector<std::string> lines;

struct Log {
    ~Log()
    {
        std::lock_guard lock(mutex);
        lines.push_back(text);
    }
    std::string text;
};
static thread_local Log local;

int main()
{
    std::binary_semaphore complete(0);
    std::thread worker([&] {
        local.text = "worked";
        complete.release();
    });
#ifdef BUG
    complete.acquire();
#else
    worker.join();
#endif
    {
        std::lock_guard lock(mutex);
        assert(lines.size() == 1);
    }
#ifdef BUG
    worker.join();
#endif
}
