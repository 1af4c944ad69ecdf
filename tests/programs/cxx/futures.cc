//@ flags: -std=c++20
// std::async, futures, promises, packaged tasks; exceptions that cross threads and that do not.
#include "check.hpp"
#include <array>
#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

static long fibonacci(int n) {
  if (n < 2) return n;
  if (n < 12) return fibonacci(n - 1) + fibonacci(n - 2);
  auto other = std::async(std::launch::async, fibonacci, n - 1);
  return fibonacci(n - 2) + other.get();
}

static void asynchronous() {
  say("fibonacci " + std::to_string(fibonacci(18)));
  auto lazy = std::async(std::launch::deferred, [] { return std::this_thread::get_id(); });
  must(lazy.wait_for(0s) == std::future_status::deferred, "deferred");
  must(lazy.get() == std::this_thread::get_id(), "deferred runs here");
  auto slow = std::async(std::launch::async, [] { std::this_thread::sleep_for(60ms); return 7; });
  must(slow.wait_for(1ms) == std::future_status::timeout, "not yet ready");
  say("slow " + std::to_string(slow.get()));
}

struct Unwound {
  std::atomic<int> &count;
  ~Unwound() { count++; }
};

[[gnu::noinline]] static void throw_deep(int depth, std::atomic<int> &count) {
  Unwound unwound{count};
  if (depth == 0) throw std::runtime_error("from the deep");
  throw_deep(depth - 1, count);
}

static void exceptions() {
  std::atomic<int> unwound{0}, caught{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; i++)
    threads.emplace_back([&] {
      for (int j = 0; j < 300; j++) {
        try {
          throw_deep(10, unwound);
        } catch (const std::runtime_error &) {
          caught++;
        }
        if (j % 20 == 0) std::this_thread::yield();
      }
    });
  for (auto &thread : threads) thread.join();
  say("caught " + std::to_string(caught) + ", unwound " + std::to_string(unwound));
}

static void exceptions_across_threads() {
  auto bad = std::async(std::launch::async, []() -> int { throw std::out_of_range("not here"); });
  try {
    bad.get();
  } catch (const std::out_of_range &error) {
    say(std::string("out of range: ") + error.what());
  }
  std::promise<std::string> promise;
  auto future = promise.get_future().share();
  std::vector<std::thread> threads;
  std::atomic<int> got{0};
  for (int i = 0; i < 5; i++)
    threads.emplace_back([future, &got] {
      try {
        future.get();
      } catch (int value) {
        got += value;
      }
    });
  promise.set_exception(std::make_exception_ptr(3));
  for (auto &thread : threads) thread.join();
  say("sum of caught " + std::to_string(got));
  std::future<int> broken;
  {
    std::promise<int> forgotten;
    broken = forgotten.get_future();
  }
  try {
    broken.get();
  } catch (const std::future_error &error) {
    say(error.code() == std::future_errc::broken_promise ? "broken promise" : "another error");
  }
}

static void nested_exceptions() {
  std::thread([] {
    try {
      try {
        throw 1;
      } catch (int) {
        std::this_thread::sleep_for(1ms);
        must(std::uncaught_exceptions() == 0, "none is in flight");
        std::throw_with_nested(std::runtime_error("outer"));
      }
    } catch (const std::exception &outer) {
      try {
        std::rethrow_if_nested(outer);
      } catch (int value) {
        say(std::string(outer.what()) + " around " + std::to_string(value));
      }
    }
  }).join();
}

static void packaged_tasks() {
  std::vector<std::future<int>> futures;
  std::vector<std::thread> threads;
  for (int i = 0; i < 20; i++) {
    std::packaged_task<int(int)> task([](int value) { return value * value; });
    futures.push_back(task.get_future());
    threads.emplace_back(std::move(task), i);
  }
  int sum = 0;
  for (auto &future : futures) sum += future.get();
  for (auto &thread : threads) thread.join();
  say("squares " + std::to_string(sum));
}

int main() {
  asynchronous();
  exceptions();
  exceptions_across_threads();
  nested_exceptions();
  packaged_tasks();
}
