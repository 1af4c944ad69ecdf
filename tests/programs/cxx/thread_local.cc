//@ flags: -std=c++20
// Thread-local objects: built at first use, destroyed at the thread's end in reverse order, never shared.
#include "check.hpp"
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

static std::atomic<int> built{0}, destroyed{0};

struct Counted {
  std::vector<int> values;
  std::thread::id owner = std::this_thread::get_id();
  Counted() : values(100, 7) { built++; }
  ~Counted() {
    must(owner == std::this_thread::get_id(), "destroyed by its owner");
    must(values.size() == 100 && values[99] == 7, "whole at its end");
    destroyed++;
  }
};

static thread_local Counted counted;
static thread_local std::unique_ptr<int> number;

struct Ordered {
  std::string name;
  std::string &log;
  ~Ordered() { log += name; }
};

static void churn() {
  std::vector<std::thread> threads;
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < 10; i++)
      threads.emplace_back([i] {
        must(!number, "begins empty");
        number = std::make_unique<int>(i);
        for (int j = 0; j < 50; j++) {
          if (j % 10 == 0) std::this_thread::yield();
          must(counted.values[j] == 7 && *number == i, "is mine");
        }
      });
    for (auto &thread : threads) thread.join();
    threads.clear();
  }
  say("built " + std::to_string(built) + ", destroyed " + std::to_string(destroyed));
}

static void never_touched() {
  int before = built;
  std::thread([] {}).join();
  say("built without use " + std::to_string(built - before));
}

static void order() {
  static std::string log;
  std::thread([] {
    thread_local Ordered a{"a", log};
    thread_local Ordered b{"b", log};
    thread_local Ordered c{"c", log};
    (void)a, (void)b, (void)c;
  }).join();
  say("destroyed in the order " + log);
}

static void born_in_a_destructor() {
  static std::atomic<int> late{0};
  struct Late {
    ~Late() { late++; }
  };
  struct Early {
    ~Early() {
      thread_local Late object;
      (void)object;
    }
  };
  std::thread([] {
    thread_local Early early;
    (void)early;
  }).join();
  say("late ones " + std::to_string(late));
}

int main() {
  churn();
  never_touched();
  order();
  born_in_a_destructor();
}
