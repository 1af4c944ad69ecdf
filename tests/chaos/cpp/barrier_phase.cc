// Barrier missing: a cell may read its neighbours for the next round before they have been written in this one.
#include <barrier>
#include <cassert>
#include <thread>
#include <vector>

constexpr int cells = 3;

int main()
{
    std::barrier phase(cells);
    int value[cells] = {1, 2, 4};
    auto step = [&](int me) {
        for (int round = 0; round < 2; round++) {
            int sum = value[(me + 1) % cells] + value[(me + 2) % cells];
            phase.arrive_and_wait();
            value[me] = sum;
#ifndef BUG
            phase.arrive_and_wait();
#endif
        }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < cells; i++)
        threads.emplace_back(step, i);
    for (auto &thread : threads)
        thread.join();
    // 1 2 4, 6 5 3, 8 9 11
    assert(value[0] == 8 && value[1] == 9 && value[2] == 11);
}
