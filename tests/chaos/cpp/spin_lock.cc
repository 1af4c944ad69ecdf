// Check then act: a spin lock that looks whether it is free and takes it in a second step.
#include <atomic>
#include <cassert>
#include <mutex>
#include <thread>

class SpinLock {
public:
    void lock()
    {
#ifdef BUG
        while (locked_)
            std::this_thread::yield();
        locked_ = true;
#else
        while (locked_.exchange(true))
            std::this_thread::yield();
#endif
    }
    void unlock() { locked_ = false; }

private:
    std::atomic<bool> locked_ = false;
};

static SpinLock lock;
static std::atomic<int> inside;

static void work()
{
    for (int i = 0; i < 3; i++) {
        std::lock_guard guard(lock);
        assert(++inside == 1);
        --inside;
    }
}

int main()
{
    std::thread other(work);
    work();
    other.join();
}
