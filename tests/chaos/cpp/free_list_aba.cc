// ABA: blocks of a pool are taken by comparing the head only, though its successor may have been taken and the head put back.
#include <atomic>
#include <cassert>
#include <cstdint>
#include <thread>

class Pool {
public:
    int allocate()
    {
        Head old = head_.load();
        for (;;) {
            if (old.first < 0)
                return -1;
            Head next{next_[old.first].load(), old.tag + tag_step};
            if (head_.compare_exchange_weak(old, next))
                return old.first;
        }
    }
    void free(int block)
    {
        Head old = head_.load(), next;
        do {
            next_[block] = old.first;
            next = {block, old.tag + tag_step};
        } while (!head_.compare_exchange_weak(old, next));
    }

private:
    struct Head {
        int32_t first;
        uint32_t tag;
    };
#ifdef BUG
    static constexpr uint32_t tag_step = 0;
#else
    static constexpr uint32_t tag_step = 1;
#endif
    std::atomic<Head> head_ = Head{0, 0};
    std::atomic<int32_t> next_[3] = {1, 2, -1};
};

static Pool pool;
static std::atomic<int> users[3];

static int take()
{
    int block = pool.allocate();
    if (block >= 0)
        assert(users[block]++ == 0);
    return block;
}

static void give(int block)
{
    if (block < 0)
        return;
    users[block]--;
    pool.free(block);
}

static void work()
{
    for (int i = 0; i < 3; i++) {
        int first = take(), second = take();
        give(first);
        give(second);
    }
}

int main()
{
    std::thread other(work);
    work();
    other.join();
}
