// Thread pool shutdown: the flag is set and notified without the mutex, while a worker is about to wait.
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>

class Pool {
public:
    Pool()
    {
        for (int i = 0; i < 2; i++)
            workers_.emplace_back([this] { work(); });
    }
    ~Pool()
    {
        {
#ifndef BUG
            std::lock_guard lock(mutex_);
#endif
            stopping_ = true;
        }
        changed_.notify_all();
        for (auto &worker : workers_)
            worker.join();
    }
    void submit(std::function<void()> job)
    {
        std::lock_guard lock(mutex_);
        jobs_.push(std::move(job));
        changed_.notify_one();
    }

private:
    void work()
    {
        std::unique_lock lock(mutex_);
        for (;;) {
            changed_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
            if (jobs_.empty())
                return;
            auto job = std::move(jobs_.front());
            jobs_.pop();
            lock.unlock();
            job();
            lock.lock();
        }
    }
    std::mutex mutex_;
    std::condition_variable changed_;
    std::atomic<bool> stopping_ = false;
    std::queue<std::function<void()>> jobs_;
    std::vector<std::thread> workers_;
};

int main()
{
    std::atomic<int> done = 0;
    {
        Pool pool;
        for (int i = 0; i < 2; i++)
            pool.submit([&] { done++; });
    }
    return done != 2;
}
