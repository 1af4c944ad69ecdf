// Reader/writer upgrade: two readers that both wait for the other one to leave before they write.
#include <cassert>
#include <condition_variable>
#include <mutex>
#include <thread>

class Lock {
public:
    void read()
    {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !upgrading_; });
        readers_++;
    }
    void done(bool was_upgraded)
    {
        std::unique_lock lock(mutex_);
        readers_--;
        if (was_upgraded)
            upgrading_ = false;
        changed_.notify_all();
    }
    // Whether the reader is the only one now; if not it has to begin again.
    bool upgrade()
    {
        std::unique_lock lock(mutex_);
#ifndef BUG
        if (upgrading_)
            return false;
#endif
        upgrading_ = true;
        changed_.wait(lock, [&] { return readers_ == 1; });
        return true;
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    int readers_ = 0;
    bool upgrading_ = false;
};

static Lock lock;
static int value;

static void increment()
{
    for (bool done = false; !done;) {
        lock.read();
        int seen = value;
        if ((done = lock.upgrade()))
            value = seen + 1;
        lock.done(done);
    }
}

int main()
{
    std::thread other(increment);
    increment();
    other.join();
    assert(value == 2);
}
