// Thread outlives main: a detached thread writes to a static journal that exit has closed.
#include <atomic>
#include <cassert>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

class Journal {
public:
    ~Journal() { is_open_ = false; }
    void append(std::string line)
    {
        assert(is_open_);
        lines_.push_back(std::move(line));
    }

private:
    std::atomic<bool> is_open_ = true;
    std::vector<std::string> lines_;
};

static Journal journal;
static std::binary_semaphore begun(0);

static void work()
{
    begun.release();
    for (int i = 0; i < 3; i++)
        journal.append("step " + std::to_string(i));
}

int main()
{
    std::thread worker(work);
    begun.acquire();
#ifdef BUG
    worker.detach();
#else
    worker.join();
#endif
}
