// Signal for broadcast: producers and consumers of a bounded queue share one condition, and notify_one may wake their own kind.
#include <cassert>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

class Queue {
public:
    void push(int item)
    {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return items_.empty(); });
        items_.push_back(item);
        notify();
    }
    int pop()
    {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !items_.empty(); });
        int item = items_.front();
        items_.pop_front();
        notify();
        return item;
    }

private:
    void notify()
    {
#ifdef BUG
        changed_.notify_one();
#else
        changed_.notify_all();
#endif
    }
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<int> items_;
};

int main()
{
    Queue queue;
    int sums[2] = {};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; i++) {
        threads.emplace_back([&] { queue.push(1), queue.push(2); });
        threads.emplace_back([&, i] { sums[i] = queue.pop() + queue.pop(); });
    }
    for (auto &thread : threads)
        thread.join();
    assert(sums[0] + sums[1] == 6);
}
