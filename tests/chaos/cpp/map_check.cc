// Check then act on a container: contains and at take the lock once each, and the key may be erased in between.
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

class Sessions {
public:
    bool contains(int key)
    {
        std::lock_guard lock(mutex_);
        return users_.contains(key);
    }
    std::string at(int key)
    {
        std::lock_guard lock(mutex_);
        return users_.at(key);
    }
    std::optional<std::string> find(int key)
    {
        std::lock_guard lock(mutex_);
        auto found = users_.find(key);
        return found == users_.end() ? std::nullopt : std::optional(found->second);
    }
    void erase(int key)
    {
        std::lock_guard lock(mutex_);
        users_.erase(key);
    }

private:
    std::mutex mutex_;
    std::map<int, std::string> users_{{1, "ada"}, {2, "bob"}};
};

int main()
{
    Sessions sessions;
    std::string user;
    std::thread request([&] {
#ifdef BUG
        if (sessions.contains(2))
            user = sessions.at(2);
#else
        if (auto found = sessions.find(2))
            user = *found;
#endif
    });
    sessions.erase(2);
    request.join();
    return !user.empty() && user != "bob";
}
