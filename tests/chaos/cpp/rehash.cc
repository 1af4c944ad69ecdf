// Use after free: the bucket is found before its lock is taken, and the table may have grown meanwhile.
#include <atomic>
#include <cassert>
#include <memory>
#include <mutex>
#include <thread>

struct Table {
    explicit Table(int size) : size(size), values(new std::atomic<int>[size]()) {}
    std::atomic<int> size;
    std::unique_ptr<std::atomic<int>[]> values;
};

static std::mutex mutex;
static std::atomic<Table *> table = new Table(4);

static void put(int key, int value)
{
#ifdef BUG
    Table *now = table;
    std::lock_guard lock(mutex);
#else
    std::lock_guard lock(mutex);
    Table *now = table;
#endif
    now->values[key % now->size] = value;
}

static void grow()
{
    std::lock_guard lock(mutex);
    Table *old = table, *larger = new Table(old->size * 2);
    for (int i = 0; i < old->size; i++)
        larger->values[i].store(old->values[i]);
    table = larger;
    old->size = 0;
    old->values.reset();
}

int main()
{
    std::thread writer([] { put(3, 33); });
    grow();
    writer.join();
    assert(table.load()->values[3] == 33);
}
