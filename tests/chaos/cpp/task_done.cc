// Use after free: the worker notifies through a task that its owner may have destroyed as soon as it was done.
#include <atomic>
#include <cassert>
#include <memory>
#include <thread>

class Task {
public:
    ~Task() { listener_ = nullptr; }
    void listen(std::atomic<int> *listener) { listener_ = listener; }
    void run()
    {
        result_ = 42;
#ifdef BUG
        done_ = true;
        ++*listener_.load();
#else
        ++*listener_.load();
        done_ = true;
#endif
    }
    int wait() const
    {
        while (!done_)
            std::this_thread::yield();
        return result_;
    }

private:
    std::atomic<bool> done_ = false;
    std::atomic<int> result_ = 0;
    std::atomic<std::atomic<int> *> listener_ = nullptr;
};

int main()
{
    std::atomic<int> completed = 0;
    auto task = std::make_unique<Task>();
    task->listen(&completed);
    std::thread worker([raw = task.get()] { raw->run(); });
    int result = task->wait();
    task.reset();
    worker.join();
    assert(result == 42 && completed == 1);
}
