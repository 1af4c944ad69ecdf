// Lock order: money is moved while both accounts are locked one after the other, in the order of the arguments.
#include <cassert>
#include <mutex>
#include <thread>

struct Account {
    std::mutex mutex;
    int balance = 50;
};

static void move(Account &from, Account &to, int amount)
{
#ifdef BUG
    std::lock_guard<std::mutex> first(from.mutex);
    std::lock_guard<std::mutex> second(to.mutex);
#else
    std::scoped_lock both(from.mutex, to.mutex);
#endif
    from.balance -= amount;
    to.balance += amount;
}

int main()
{
    Account savings, current;
    std::thread saver([&] {
        for (int i = 0; i < 3; i++)
            move(current, savings, 5);
    });
    for (int i = 0; i < 3; i++)
        move(savings, current, 10);
    saver.join();
    assert(savings.balance == 35 && current.balance == 65);
}
