// Once misused: the thread that loses the race for the flag does not wait until the winner has initialised.
#include <atomic>
#include <cassert>
#include <memory>
#include <mutex>
#include <thread>

static std::atomic<int *> counter;
static int storage;

static void initialise()
{
    storage = 100;
    counter = &storage;
}

static int *get()
{
#ifdef BUG
    static std::atomic<bool> begun;
    if (!begun.exchange(true))
        initialise();
#else
    static std::once_flag once;
    std::call_once(once, initialise);
#endif
    return counter;
}

int main()
{
    std::thread other([] { assert(*get() == 100); });
    assert(*get() == 100);
    other.join();
}
