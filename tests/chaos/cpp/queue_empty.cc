// Check then act on a container: empty and pop lock the queue once each, and two consumers see the last item.
#include <mutex>
#include <queue>
#include <stdexcept>
#include <thread>

class Jobs {
public:
    bool empty()
    {
        std::lock_guard lock(mutex_);
        return jobs_.empty();
    }
    int pop()
    {
        std::lock_guard lock(mutex_);
        if (jobs_.empty())
            throw std::out_of_range("no job is left");
        int job = jobs_.front();
        jobs_.pop();
        return job;
    }
    int pop_or(int other)
    {
        std::lock_guard lock(mutex_);
        if (jobs_.empty())
            return other;
        int job = jobs_.front();
        jobs_.pop();
        return job;
    }
    std::mutex mutex_;
    std::queue<int> jobs_{{1, 2, 3}};
};

static int consume(Jobs &jobs)
{
    int sum = 0;
#ifdef BUG
    while (!jobs.empty())
        sum += jobs.pop();
#else
    while (int job = jobs.pop_or(0))
        sum += job;
#endif
    return sum;
}

int main()
{
    Jobs jobs;
    int theirs = 0;
    std::thread other([&] { theirs = consume(jobs); });
    int ours = consume(jobs);
    other.join();
    return ours + theirs != 6;
}
