// Latch not waited for: try_wait only asks, and the caller goes on as if all parts were loaded.
#include <cassert>
#include <latch>
#include <thread>

int main()
{
    std::latch loaded(2);
    int parts[2] = {};
    std::thread first([&] { parts[0] = 1, loaded.count_down(); });
    std::thread second([&] { parts[1] = 2, loaded.count_down(); });
    std::thread report([&] {
#ifdef BUG
        for (int i = 0; i < 100 && !loaded.try_wait(); i++)
            std::this_thread::yield();
#else
        loaded.wait();
#endif
        assert(parts[0] + parts[1] == 3);
    });
    first.join();
    second.join();
    report.join();
}
