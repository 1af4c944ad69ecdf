// Lost wake-up: the waiters of an atomic are notified before it has its new value.
#include <atomic>
#include <cassert>
#include <thread>

static std::atomic<int> phase;

static void advance()
{
#ifdef BUG
    phase.notify_all();
    phase.store(1);
#else
    phase.store(1);
    phase.notify_all();
#endif
}

int main()
{
    std::thread waiter([] {
        phase.wait(0);
        assert(phase.load() == 1);
    });
    advance();
    waiter.join();
}
