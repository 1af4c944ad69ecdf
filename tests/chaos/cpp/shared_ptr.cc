// Use after free: a shared_ptr that two threads share is copied by the one while the other replaces it.
#include <cassert>
#include <memory>
#include <mutex>
#include <thread>

struct Route {
    explicit Route(int hops) : hops(hops) {}
    ~Route() { hops = -1; }
    volatile int hops;
};

static std::shared_ptr<Route> route = std::make_shared<Route>(1);
static std::mutex mutex;

static std::shared_ptr<Route> current()
{
#ifndef BUG
    std::lock_guard lock(mutex);
#endif
    return route;
}

static void replace(int hops)
{
    auto next = std::make_shared<Route>(hops);
#ifndef BUG
    std::lock_guard lock(mutex);
#endif
    route.swap(next);
#ifdef BUG
    next.reset();
#endif
}

int main()
{
    std::thread reader([] {
        for (int i = 0; i < 3; i++) {
            auto mine = current();
            assert(mine->hops > 0);
        }
    });
    for (int i = 2; i < 5; i++)
        replace(i);
    reader.join();
}
