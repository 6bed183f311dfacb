// Waits that end when their result is no longer wanted.

#include "base/interruption.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "base/single_flight.h"

namespace codecfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Interruption, BelongsToTheThreadAndTheScope) {
  EXPECT_FALSE(Interruption::is_requested());
  const Interruption::Check yes = [] { return true; };
  {
    const Interruption::Scope scope(&yes);
    EXPECT_TRUE(Interruption::is_requested());
    std::jthread([] { EXPECT_FALSE(Interruption::is_requested()); });
    {
      const Interruption::Scope none(nullptr);
      EXPECT_FALSE(Interruption::is_requested());
    }
    EXPECT_TRUE(Interruption::is_requested());
  }
  EXPECT_EQ(Interruption::current(), nullptr);
}

TEST(Interruption, EndsWaits) {
  Mutex mutex;
  ConditionVariable never;
  const auto began = std::chrono::steady_clock::now();
  const Interruption::Check later = [&] { return std::chrono::steady_clock::now() - began > milliseconds(20); };
  const Interruption::Scope scope(&later);
  UniqueLock lock(mutex);
  EXPECT_FALSE(Interruption::wait(never, lock, [] { return false; }));
  EXPECT_TRUE(lock.owns_lock());
  EXPECT_TRUE(Interruption::wait(never, lock, [] { return true; })) << "what has come is taken";
  EXPECT_FALSE(Interruption::sleep(seconds(100)));
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(50));
}

TEST(Interruption, EndsTheWaitForAMutex) {
  Mutex mutex;
  const LockGuard held(mutex);
  std::jthread([&] {
    const Interruption::Check yes = [] { return true; };
    const Interruption::Scope scope(&yes);
    const Interruption::Guard guard(mutex);
    EXPECT_FALSE(guard.owns_lock());
  });
}

TEST(SingleFlight, SharesOneCall) {
  SingleFlight<int> flights;
  std::atomic<int> calls = 0;
  std::atomic<int> begun = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 6; ++i)
    threads.emplace_back([&] {
      ++begun;
      const Result<int> value = flights.run("key", [&]() -> Result<int> {
        while (begun < 6) std::this_thread::yield();
        std::this_thread::sleep_for(milliseconds(50));
        return ++calls;
      });
      EXPECT_EQ(value.value(), 1);
    });
  threads.clear();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(flights.run("key", [&]() -> Result<int> { return ++calls; }).value(), 2) << "nothing is kept";
}

TEST(SingleFlight, AnInterruptedCallIsNotSharedWithOthers) {
  SingleFlight<int> flights;
  std::atomic<bool> is_waiting = false;
  std::atomic<bool> is_unwanted = false;
  std::jthread first([&] {
    const Interruption::Check check = [&] { return is_unwanted.load(); };
    const Interruption::Scope scope(&check);
    const auto value = flights.run("key", [&]() -> Result<int> {
      is_waiting = true;
      if (!Interruption::sleep(seconds(100))) return Interruption::error();
      return 1;
    });
    EXPECT_EQ(value.error().code, EINTR);
  });
  while (!is_waiting) std::this_thread::yield();
  std::jthread second([&] { EXPECT_EQ(flights.run("key", []() -> Result<int> { return 2; }).value(), 2); });
  std::jthread third([&] {
    const Interruption::Check yes = [] { return true; };
    const Interruption::Scope scope(&yes);
    EXPECT_EQ(flights.run("key", []() -> Result<int> { return 3; }).error().code, EINTR) << "it does not wait";
  });
  third.join();
  is_unwanted = true;
}

}  // namespace
}  // namespace codecfs
