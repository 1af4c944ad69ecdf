// Deadlock of a pool: a job waits for a job that it has submitted, and all workers may be busy waiting.
#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <queue>
#include <thread>

#ifdef BUG
constexpr int workers = 2;
#else
constexpr int workers = 3;
#endif
static std::mutex mutex;
static std::condition_variable changed;
static std::queue<std::packaged_task<int()>> jobs;
static bool stopping;

static std::future<int> submit(std::function<int()> job)
{
    std::lock_guard lock(mutex);
    jobs.emplace(std::move(job));
    changed.notify_one();
    return jobs.back().get_future();
}

static void work()
{
    for (;;) {
        std::unique_lock lock(mutex);
        changed.wait(lock, [] { return stopping || !jobs.empty(); });
        if (jobs.empty())
            return;
        auto job = std::move(jobs.front());
        jobs.pop();
        lock.unlock();
        job();
    }
}

int main()
{
    std::thread threads[workers];
    for (auto &thread : threads)
        thread = std::thread(work);
    auto both = [] { return submit([] { return 1; }).get() + 1; };
    auto first = submit(both);
    auto second = submit(both);
    int sum = first.get() + second.get();
    {
        std::lock_guard lock(mutex);
        stopping = true;
    }
    changed.notify_all();
    for (auto &thread : threads)
        thread.join();
    return sum != 4;
}
