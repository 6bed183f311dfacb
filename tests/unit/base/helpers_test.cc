#include "base/helpers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace codecfs {
namespace {

/// Threads that take part at once.
class SomeThreads : public Helpers {
 public:
  explicit SomeThreads(size_t most) : most_(most) {}
  void help(size_t count, const std::function<void()>& work) override {
    for (size_t i = 0; i < std::min(count, most_); ++i) threads_.emplace_back(work);
  }

 private:
  const size_t most_;
  std::vector<std::jthread> threads_;
};

/// One that comes when all is done.
class TooLate : public Helpers {
 public:
  void help(size_t, const std::function<void()>& work) override { work_ = work; }
  void come() { work_(); }

 private:
  std::function<void()> work_;
};

std::vector<int> calls_of_each(size_t count) {
  std::vector<std::atomic<int>> calls(count);
  for_each_with_help(count, [&](size_t number) { ++calls.at(number); });
  return {calls.begin(), calls.end()};
}

TEST(Helpers, WithoutThemTheCallerDoesAllInOrder) {
  EXPECT_EQ(Helpers::current(), nullptr);
  std::vector<size_t> numbers;
  for_each_with_help(5, [&](size_t number) { numbers.push_back(number); });
  EXPECT_EQ(numbers, (std::vector<size_t>{0, 1, 2, 3, 4}));
  for_each_with_help(0, [](size_t) { FAIL(); });
}

TEST(Helpers, EachNumberIsDoneOnce) {
  for (const size_t count : {0, 1, 2, 3, 1000})
    for (const size_t threads : {0, 1, 5}) {
      SomeThreads helpers(threads);
      const Helpers::Scope scope(helpers);
      EXPECT_EQ(calls_of_each(count), std::vector<int>(count, 1)) << count << ", " << threads;
    }
}

TEST(Helpers, TakePart) {
  SomeThreads helpers(1);
  const Helpers::Scope scope(helpers);
  std::atomic<int> arrived = 0;
  Mutex mutex;
  std::set<std::thread::id> threads;
  for_each_with_help(2, [&](size_t) {
    ++arrived;
    while (arrived != 2) std::this_thread::yield();
    const LockGuard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(threads.size(), 2);
}

TEST(Helpers, WhoComesTooLateFindsNothing) {
  TooLate helper;
  {
    const Helpers::Scope scope(helper);
    EXPECT_EQ(calls_of_each(3), std::vector<int>(3, 1));
  }
  helper.come();
}

TEST(Helpers, AnExceptionIsThatOfTheCaller) {
  SomeThreads helpers(2);
  const Helpers::Scope scope(helpers);
  std::atomic<int> calls = 0;
  const auto work = [&](size_t number) {
    ++calls;
    if (number == 7) throw std::runtime_error("seven");
  };
  EXPECT_THROW(for_each_with_help(100, work), std::runtime_error);
  EXPECT_EQ(calls, 100);
}

TEST(Helpers, ScopesEnd) {
  SomeThreads outer(1);
  SomeThreads inner(1);
  {
    const Helpers::Scope scope(outer);
    {
      const Helpers::Scope within(inner);
      EXPECT_EQ(Helpers::current(), &inner);
    }
    EXPECT_EQ(Helpers::current(), &outer);
    std::thread([] { EXPECT_EQ(Helpers::current(), nullptr); }).join();
  }
  EXPECT_EQ(Helpers::current(), nullptr);
}

}  // namespace
}  // namespace codecfs
