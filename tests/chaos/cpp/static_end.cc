// Thread outlives main: a detached thread uses a static object that exit has destroyed.
#include <cassert>
#include <memory>
#include <semaphore>
#include <thread>

static std::unique_ptr<int> budget = std::make_unique<int>(10);
static std::binary_semaphore started(0);

static void spend()
{
    started.release();
    for (int i = 0; i < 3; i++)
        *budget -= 1;
}

int main()
{
#ifdef BUG
    std::thread(spend).detach();
    started.acquire();
#else
    std::thread spender(spend);
    started.acquire();
    spender.join();
    assert(*budget == 7);
#endif
}
