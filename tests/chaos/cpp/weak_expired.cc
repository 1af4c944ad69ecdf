// Check then act: the last owner may go between expired and lock.
#include <memory>
#include <thread>

struct Session {
    int requests = 0;
    int number = 7;
};

static int ask(const std::weak_ptr<Session> &weak)
{
#ifdef BUG
    if (weak.expired())
        return 0;
    return weak.lock()->number;
#else
    auto session = weak.lock();
    return session ? session->number : 0;
#endif
}

int main()
{
    auto session = std::make_shared<Session>();
    std::weak_ptr<Session> weak = session;
    int got = 0;
    std::thread client([&] { got = ask(weak); });
    session.reset();
    client.join();
    return got != 0 && got != 7;
}
