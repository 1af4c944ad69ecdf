// Lock order by a callback: the subject calls its observers with its lock held, and they ask the subject with theirs.
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

class Subject {
public:
    void subscribe(std::function<void(int)> observer)
    {
        std::lock_guard lock(mutex_);
        observers_.push_back(std::move(observer));
    }
    void set(int value)
    {
        std::unique_lock lock(mutex_);
        value_ = value;
        auto observers = observers_;
#ifndef BUG
        lock.unlock();
#endif
        for (auto &observer : observers)
            observer(value);
    }
    int get()
    {
        std::lock_guard lock(mutex_);
        return value_;
    }

private:
    std::mutex mutex_;
    int value_ = 0;
    std::vector<std::function<void(int)>> observers_;
};

int main()
{
    Subject subject;
    std::mutex view_mutex;
    int shown = 0;
    subject.subscribe([&](int value) {
        std::lock_guard lock(view_mutex);
        shown = value;
    });
    std::thread painter([&] {
        std::lock_guard lock(view_mutex);
        shown = subject.get();
    });
    subject.set(7);
    painter.join();
    return shown != 7 && shown != 0;
}
