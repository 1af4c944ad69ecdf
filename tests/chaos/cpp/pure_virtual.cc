// Thread outlives its object's class: the base class joins the thread when the derived class is gone, which it calls.
#include <atomic>
#include <thread>

class Active {
public:
    virtual ~Active() { stop(); }
    void start()
    {
        thread_ = std::thread([this] {
            for (int i = 0; i < 3 && !stopping_; i++)
                step();
        });
    }

protected:
    virtual void step() = 0;

public:
    void stop()
    {
        stopping_ = true;
        if (thread_.joinable())
            thread_.join();
    }

private:
    std::atomic<bool> stopping_ = false;
    std::thread thread_;
};

class Counter : public Active {
public:
    void step() override { steps_++; }

private:
    std::atomic<int> steps_ = 0;
};

int main()
{
    Active *counter = new Counter;
    counter->start();
#ifndef BUG
    counter->stop();
#endif
    delete counter;
}
