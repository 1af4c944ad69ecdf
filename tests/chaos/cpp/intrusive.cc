// Reference count: taking a reference looks whether the object lives, and counts in a second step.
#include <atomic>
#include <cassert>
#include <thread>

class Texture {
public:
    bool retain()
    {
        int now = references_;
#ifdef BUG
        if (now == 0)
            return false;
        references_++;
#else
        do
            if (now == 0)
                return false;
        while (!references_.compare_exchange_weak(now, now + 1));
#endif
        return true;
    }
    void release()
    {
        if (--references_ == 0)
            pixels_ = 0;
    }
    int pixels() const { return pixels_; }

private:
    std::atomic<int> references_ = 1;
    std::atomic<int> pixels_ = 640;
};

int main()
{
    Texture texture;
    std::thread painter([&] {
        if (texture.retain()) {
            assert(texture.pixels() == 640);
            texture.release();
        }
    });
    texture.release();
    painter.join();
}
