//@ flags: -std=c++20
// std::thread and std::jthread, mutexes of every kind, condition variables, call_once, latches, semaphores.
#include "check.hpp"
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <latch>
#include <mutex>
#include <numeric>
#include <queue>
#include <semaphore>
#include <shared_mutex>
#include <stop_token>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

static void parallel_sum() {
  std::vector<std::thread> threads;
  std::vector<long> sums(16);
  for (int i = 0; i < 16; i++)
    threads.emplace_back([i, &sums] {
      for (long j = 0; j < 100000; j++) sums[i] += j * i;
    });
  for (auto &thread : threads) thread.join();
  say("sum " + std::to_string(std::accumulate(sums.begin(), sums.end(), 0L)));
}

template <typename Mutex> static void count_under(const char *name) {
  Mutex mutex;
  long count = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 6; i++)
      threads.emplace_back([&] {
        for (int j = 0; j < 5000; j++) {
          std::lock_guard lock(mutex);
          count++;
        }
      });
  }
  say(std::string(name) + " " + std::to_string(count));
}

static void timed_mutex() {
  std::timed_mutex mutex;
  mutex.lock();
  std::thread([&] {
    auto before = std::chrono::steady_clock::now();
    bool got = mutex.try_lock_for(20ms);
    must(std::chrono::steady_clock::now() - before >= 20ms, "waited long enough");
    say(std::string("timed mutex ") + (got ? "got" : "not got"));
  }).join();
  mutex.unlock();
}

static void condition_variables() {
  std::mutex mutex;
  std::condition_variable wake;
  std::queue<int> queue;
  bool done = false;
  long sum = 0;
  std::vector<std::jthread> consumers;
  for (int i = 0; i < 4; i++)
    consumers.emplace_back([&] {
      std::unique_lock lock(mutex);
      for (;;) {
        wake.wait(lock, [&] { return done || !queue.empty(); });
        if (queue.empty()) return;
        sum += queue.front();
        queue.pop();
      }
    });
  for (int i = 0; i < 10000; i++) {
    std::lock_guard lock(mutex);
    queue.push(i);
    wake.notify_one();
  }
  {
    std::lock_guard lock(mutex);
    done = true;
  }
  wake.notify_all();
  consumers.clear();
  say("consumed " + std::to_string(sum));
  std::unique_lock lock(mutex);
  bool came = wake.wait_for(lock, 20ms, [] { return false; });
  say(std::string("wait_for ") + (came ? "came" : "timed out"));
}

static void stop_tokens() {
  std::condition_variable_any wake;
  std::mutex mutex;
  std::jthread waiter([&](std::stop_token stop) {
    std::unique_lock lock(mutex);
    bool came = wake.wait(lock, stop, [] { return false; });
    say(std::string("stopped ") + (came ? "no" : "yes"));
  });
  std::this_thread::sleep_for(20ms);
  waiter.request_stop();
  waiter.join();
  std::stop_source source;
  int called = 0;
  std::stop_callback callback(source.get_token(), [&] { called++; });
  source.request_stop();
  source.request_stop();
  say("callbacks " + std::to_string(called));
}

static void once() {
  std::once_flag flag;
  int runs = 0, throws = 0;
  std::vector<std::thread> threads;
  std::mutex mutex;
  for (int i = 0; i < 10; i++)
    threads.emplace_back([&] {
      try {
        std::call_once(flag, [&] {
          std::this_thread::sleep_for(2ms);
          if (throws == 0) {
            throws++;
            throw 5;
          }
          runs++;
        });
      } catch (int) {
        std::lock_guard lock(mutex);
      }
    });
  for (auto &thread : threads) thread.join();
  say("runs " + std::to_string(runs) + ", throws " + std::to_string(throws));
}

static void shared_mutex() {
  std::shared_mutex mutex;
  long a = 0, b = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 6; i++)
    threads.emplace_back([&, i] {
      for (int j = 0; j < 3000; j++) {
        if (i % 3 == 0) {
          std::unique_lock lock(mutex);
          a++;
          b++;
        } else {
          std::shared_lock lock(mutex);
          must(a == b, "readers see whole writes");
        }
      }
    });
  threads.clear();
  say("shared " + std::to_string(a));
}

static void meeting_points() {
  std::latch start(8);
  std::counting_semaphore<4> semaphore(2);
  std::atomic<int> inside{0}, most{0};
  int phases = 0;
  std::barrier barrier(8, [&]() noexcept { phases++; });
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; i++)
      threads.emplace_back([&] {
        start.arrive_and_wait();
        for (int j = 0; j < 200; j++) {
          barrier.arrive_and_wait();
          semaphore.acquire();
          int now = ++inside, old = most;
          while (now > old && !most.compare_exchange_weak(old, now)) {}
          --inside;
          semaphore.release();
        }
      });
  }
  must(most <= 2, "no more than two inside");
  say("phases " + std::to_string(phases));
}

static void atomic_wait() {
  std::atomic<int> turn{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; i++)
    threads.emplace_back([&, i] {
      for (int j = 0; j < 1000; j++) {
        for (int now = turn; now % 4 != i; now = turn) turn.wait(now);
        turn++;
        turn.notify_all();
      }
    });
  threads.clear();
  say("turns " + std::to_string(turn));
}

int main() {
  parallel_sum();
  count_under<std::mutex>("mutex");
  count_under<std::recursive_mutex>("recursive mutex");
  count_under<std::timed_mutex>("timed mutex");
  timed_mutex();
  condition_variables();
  stop_tokens();
  once();
  shared_mutex();
  meeting_points();
  atomic_wait();
  say("hardware concurrency is known: " + std::to_string(std::thread::hardware_concurrency() > 0));
}
