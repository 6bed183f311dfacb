// Loops in one thread, in new ones, and in helpers: every number once, and one answer to each thing that goes wrong.

#include "base/parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/fail_points.h"
#include "base/interruption.h"
#include "base/mutex.h"
#include "base/threads.h"
#include "base/worker_process.h"

namespace codecfs {
namespace {

using Threads = std::set<std::thread::id>;

/// Threads that take part at once.
class SomeThreads : public Helpers {
 public:
  explicit SomeThreads(size_t most) : most_(most) {}
  void help(size_t count, const std::function<void()>& work) override {
    asked_ = count;
    for (size_t i = 0; i < std::min(count, most_); ++i) threads_.emplace_back(work);
  }
  [[nodiscard]] size_t asked() const { return asked_; }

 private:
  const size_t most_;
  size_t asked_ = 0;
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

/// One that has no memory for the work, after another one has taken it.
class WithoutMemory : public SomeThreads {
 public:
  WithoutMemory() : SomeThreads(1) {}
  void help(size_t count, const std::function<void()>& work) override {
    SomeThreads::help(count, work);
    throw std::bad_alloc();
  }
};

std::vector<int> calls_of_each(uint64_t count, const ParallelOptions& options) {
  std::vector<std::atomic<int>> calls(count);
  EXPECT_TRUE(parallel_for(count, options, [&](uint64_t number) -> Result<> {
    ++calls.at(number);
    return {};
  }));
  return {calls.begin(), calls.end()};
}

/// The threads that take part in a loop of `count` numbers. The first `wait_for` calls wait for one another, so that as
/// many threads must take part.
Threads threads_of(uint64_t count, const ParallelOptions& options, int wait_for = 0) {
  std::atomic<int> arrived = 0;
  Mutex mutex;
  Threads threads;
  EXPECT_TRUE(parallel_for(count, options, [&](uint64_t) -> Result<> {
    ++arrived;
    while (arrived < wait_for) std::this_thread::yield();
    const LockGuard lock(mutex);
    threads.insert(std::this_thread::get_id());
    return {};
  }));
  return threads;
}

Threads only_this_one() { return {std::this_thread::get_id()}; }

TEST(Parallel, EachNumberIsWorkedOnOnce) {
  for (const uint64_t count : {0, 1, 2, 3, 1000})
    for (const size_t threads : {0, 1, 2, 8}) {
      EXPECT_EQ(calls_of_each(count, {.threads = threads}), std::vector<int>(count, 1)) << count << ", " << threads;
      SomeThreads helpers(threads);
      EXPECT_EQ(calls_of_each(count, {.helpers = &helpers}), std::vector<int>(count, 1)) << count << ", " << threads;
    }
}

TEST(Parallel, OneThreadAloneIsTheCallersAndTakesTheNumbersInOrder) {
  std::vector<uint64_t> numbers;
  EXPECT_TRUE(parallel_for(5, {.threads = 1}, [&](uint64_t number) -> Result<> {
    numbers.push_back(number);
    return {};
  }));
  EXPECT_EQ(numbers, (std::vector<uint64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(threads_of(100, {.threads = 1}), only_this_one());
  EXPECT_EQ(threads_of(1, {.threads = 8}), only_this_one());
}

TEST(Parallel, TheCallingThreadIsOneOfThem) {
  for (const int threads : {2, 5}) {
    const Threads found = threads_of(100, {.threads = static_cast<size_t>(threads)}, threads);
    EXPECT_EQ(found.size(), threads);
    EXPECT_TRUE(found.contains(std::this_thread::get_id()));
  }
}

TEST(Parallel, ByDefaultThereAreAsManyThreadsAsCores) {
  const auto cores = static_cast<int>(core_count());
  EXPECT_EQ(threads_of(1000, {}, cores).size(), cores);
}

TEST(Parallel, ThereAreNoMoreThreadsThanMemory) {
  EXPECT_EQ(threads_of(200, {.threads = 8, .call_bytes = kParallelMemory}), only_this_one());
  EXPECT_EQ(threads_of(200, {.threads = 8, .call_bytes = 2 * kParallelMemory}), only_this_one());
  EXPECT_EQ(threads_of(200, {.threads = 8, .call_bytes = kParallelMemory / 3}, 3).size(), 3);
  EXPECT_EQ(threads_of(200, {.threads = 4, .call_bytes = 1}, 4).size(), 4);
}

TEST(Parallel, WithoutMoreThreadsThoseThatThereAreDoAll) {
  for (int passed = 0; passed <= 4; ++passed) {
    FailPoints::arm(FailPoint::thread, passed);
    const int threads = std::min(passed + 1, 4);
    const Threads found = threads_of(100, {.threads = 4}, threads);
    EXPECT_EQ(found.size(), threads);
    EXPECT_TRUE(found.contains(std::this_thread::get_id()));
    FailPoints::arm(FailPoint::thread, passed);
    EXPECT_EQ(calls_of_each(100, {.threads = 4}), std::vector<int>(100, 1)) << passed;
  }
  FailPoints::disarm();
}

TEST(Parallel, WithoutMemoryForMoreThreadsTheCallerDoesAll) {
  FailPoints::arm(FailPoint::memory, 0);
  EXPECT_EQ(threads_of(100, {.threads = 4}), only_this_one());
  SomeThreads helpers(4);
  EXPECT_EQ(threads_of(100, {.helpers = &helpers}), only_this_one());
  EXPECT_EQ(calls_of_each(100, {.threads = 4}), std::vector<int>(100, 1));
  FailPoints::disarm();
}

TEST(Parallel, LoopsCanBeNested) {
  for (const int passed : {0, 3, 1000}) {  // threads
    FailPoints::arm(FailPoint::thread, passed);
    std::vector<std::atomic<int>> calls(30 * 20);
    const auto row = [&](uint64_t i) {
      return parallel_for(20, {.threads = 4}, [&](uint64_t j) -> Result<> {
        ++calls[i * 20 + j];
        if (i == 29 && j == 19) return fail(ENOSPC, "the last one");
        return {};
      });
    };
    const Result<> done = parallel_for(30, {.threads = 4}, row);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().reason, "the last one");
    EXPECT_EQ(std::vector<int>(calls.begin(), calls.end()), std::vector<int>(30 * 20, 1)) << passed;
  }
  FailPoints::disarm();
}

TEST(Parallel, AnErrorEndsTheLoop) {
  for (const size_t threads : {1, 4}) {
    std::atomic<uint64_t> calls = 0;
    const Result<> done = parallel_for(1'000'000, {.threads = threads}, [&](uint64_t number) -> Result<> {
      ++calls;
      if (number == 10) return fail(ENOSPC, "no room for {}", number);
      return {};
    });
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ENOSPC);
    EXPECT_EQ(done.error().reason, "no room for 10");
    EXPECT_LT(calls, 1'000'000);
    if (threads == 1) {
      EXPECT_EQ(calls, 11);
    }
  }
}

TEST(Parallel, TheFirstErrorIsReturned) {
  // In two threads, which are in a call when the first error occurs. That of the higher number is known before the
  // other call ends: the thread of its call has ended.
  std::atomic<int> begun = 0;
  std::atomic<bool> ended = false;
  class EndsThen : public SomeThreads {
   public:
    explicit EndsThen(std::atomic<bool>& ended) : SomeThreads(1), ended_(ended) {}
    void help(size_t count, const std::function<void()>& work) override {
      SomeThreads::help(count, [&, work] {
        work();
        ended_ = true;
      });
    }

   private:
    std::atomic<bool>& ended_;
  } helper(ended);
  const std::thread::id caller = std::this_thread::get_id();
  const Result<> done = parallel_for(100, {.helpers = &helper}, [&](uint64_t) -> Result<> {
    ++begun;
    while (begun < 2) std::this_thread::yield();
    if (std::this_thread::get_id() != caller) return fail(ENOSPC, "first");
    while (!ended) std::this_thread::yield();
    return fail(EACCES, "second");
  });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().reason, "first");
  EXPECT_EQ(begun, 2);
}

TEST(Parallel, AnExceptionIsAnError) {
  for (const size_t threads : {1, 4}) {
    const ParallelOptions options{.threads = threads};
    Result<> done = parallel_for(100, options, [](uint64_t) -> Result<> { throw std::bad_alloc(); });
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ENOMEM);
    EXPECT_EQ(done.error().reason, "out of memory");
    done = parallel_for(100, options, [](uint64_t number) -> Result<> {
      if (number == 7) throw std::runtime_error("seven");
      return {};
    });
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, EIO);
    EXPECT_TRUE(done.error().reason.contains("seven")) << done.error().reason;
    done = parallel_for(100, options, [](uint64_t) -> Result<> { throw 7; });
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, EIO);
    done =
        parallel_for(100, {.threads = threads, .memory_reason = "no memory to do what takes a long text to describe"},
                     [](uint64_t) -> Result<> { throw std::bad_alloc(); });
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().reason, "no memory to do what takes a long text to describe");
  }
}

TEST(Parallel, AnExceptionInAnotherThreadIsAnErrorOfTheCaller) {
  SomeThreads helpers(1);
  for (Helpers* const used : {static_cast<Helpers*>(nullptr), static_cast<Helpers*>(&helpers)}) {
    std::atomic<int> arrived = 0;
    const std::thread::id caller = std::this_thread::get_id();
    const Result<> done = parallel_for(2, {.threads = 2, .helpers = used}, [&](uint64_t) -> Result<> {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
      if (std::this_thread::get_id() != caller) throw std::runtime_error("elsewhere");
      return {};
    });
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, EIO);
    EXPECT_TRUE(done.error().reason.contains("elsewhere")) << done.error().reason;
  }
}

TEST(Parallel, CanBeCancelled) {
  for (const size_t threads : {1, 4})
    for (const uint64_t after : {0, 5}) {
      std::atomic<uint64_t> calls = 0;
      const Result<> done = parallel_for(1'000'000, {.threads = threads, .cancelled = [&] { return calls >= after; }},
                                         [&](uint64_t) -> Result<> {
                                           ++calls;
                                           return {};
                                         });
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().code, ECANCELED);
      EXPECT_EQ(done.error().reason, "interrupted");
      EXPECT_LT(calls, after + threads);
    }
  const Result<> done = parallel_for(3, {.cancelled = [] { return true; }, .cancelled_reason = "was not done"},
                                     [](uint64_t) -> Result<> { return fail(EIO, "was called"); });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().reason, "was not done");
}

TEST(Parallel, IsNotCancelledOnceAllIsDone) {
  uint64_t calls = 0;
  EXPECT_TRUE(parallel_for(5, {.threads = 1, .cancelled = [&] { return calls == 5; }}, [&](uint64_t) -> Result<> {
    ++calls;
    return {};
  }));
  EXPECT_EQ(calls, 5);
  EXPECT_TRUE(parallel_for(0, {.cancelled = [] { return true; }},
                           [](uint64_t) -> Result<> { return fail(EIO, "there is nothing to do"); }));
}

TEST(Parallel, OtherThreadsWorkForTheCallingOne) {
  const Interruption::Check check = [] { return false; };
  const Interruption::Scope scope(&check);
  begin_step(7, 0);
  // A helper that works for something else at other times.
  class Busy : public SomeThreads {
   public:
    Busy() : SomeThreads(1) {}
    void help(size_t count, const std::function<void()>& work) override {
      SomeThreads::help(count, [work] {
        const Interruption::Check own = [] { return true; };
        const Interruption::Scope other(&own);
        begin_step(8, 0);
        work();
        EXPECT_EQ(Interruption::current(), &own);
        EXPECT_EQ(current_step(), 8);
      });
    }
  } busy;
  for (Helpers* const used : {static_cast<Helpers*>(nullptr), static_cast<Helpers*>(&busy)}) {
    std::atomic<int> arrived = 0;
    EXPECT_TRUE(parallel_for(2, {.threads = 2, .helpers = used}, [&](uint64_t) -> Result<> {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
      EXPECT_EQ(Interruption::current(), &check);
      EXPECT_EQ(current_step(), 7);
      return {};
    }));
  }
  EXPECT_EQ(Interruption::current(), &check);
  EXPECT_EQ(current_step(), 7);
  end_step();
}

TEST(Parallel, HelpersTakePart) {
  SomeThreads helpers(1);
  const Threads found = threads_of(9, {.helpers = &helpers}, 2);
  EXPECT_EQ(found.size(), 2);
  EXPECT_TRUE(found.contains(std::this_thread::get_id()));
  EXPECT_EQ(helpers.asked(), 8) << "one for each number but one";
  SomeThreads few(9);
  EXPECT_EQ(threads_of(9, {.threads = 3, .helpers = &few}, 3).size(), 3);
  SomeThreads none(0);
  EXPECT_EQ(threads_of(9, {.helpers = &none}), only_this_one());
}

TEST(Parallel, AHelperThatComesTooLateFindsNothing) {
  TooLate helper;
  EXPECT_EQ(calls_of_each(3, {.helpers = &helper}), std::vector<int>(3, 1));
  helper.come();
  EXPECT_FALSE(parallel_for(3, {.helpers = &helper}, [](uint64_t) -> Result<> { return fail(EIO, "x"); }));
  helper.come();  // numbers are left, but must not be worked on
}

TEST(Parallel, WithoutMemoryForHelpersThoseThatThereAreDoAll) {
  WithoutMemory helpers;
  EXPECT_EQ(calls_of_each(1000, {.helpers = &helpers}), std::vector<int>(1000, 1));
}

/// Numbers below `count`, of which `taken` says how many were returned.
struct Source {
  Result<std::optional<uint64_t>> next() {
    EXPECT_FALSE(under_way.exchange(true)) << "one thread at a time";
    const uint64_t number = taken;
    if (number < count) ++taken;
    ++asked;
    under_way = false;
    if (number == count) return std::nullopt;
    return number;
  }

  const uint64_t count;
  uint64_t taken = 0;
  uint64_t asked = 0;
  std::atomic<bool> under_way = false;
};

TEST(ParallelForEach, WorksOnEachNumberThatIsReturned) {
  for (const uint64_t count : {0, 1, 1000})
    for (const size_t threads : {0, 1, 4}) {
      Source source{.count = count};
      std::vector<std::atomic<int>> calls(count);
      EXPECT_TRUE(parallel_for_each([&] { return source.next(); }, {.threads = threads},
                                    [&](uint64_t number) {
                                      ++calls.at(number);
                                      return Result<>();
                                    }));
      EXPECT_EQ(std::vector<int>(calls.begin(), calls.end()), std::vector<int>(count, 1));
      EXPECT_EQ(source.asked, count + 1) << "not again after there was none";
    }
}

TEST(ParallelForEach, AnErrorEndsTheLoop) {
  for (const size_t threads : {1, 4}) {
    Source source{.count = 1'000'000};
    const Result<> done =
        parallel_for_each([&] { return source.next(); }, {.threads = threads},
                          [&](uint64_t number) { return number == 10 ? Result<>(fail(ENOSPC, "full")) : Result<>(); });
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ENOSPC);
    EXPECT_LT(source.taken, 1'000'000);
    if (threads == 1) {
      EXPECT_EQ(source.taken, 11);
    }
  }
}

TEST(ParallelForEach, AnErrorOfTheNumbersEndsTheLoop) {
  for (const size_t threads : {1, 4})
    for (const bool throws : {false, true}) {
      uint64_t asked = 0;
      std::atomic<uint64_t> calls = 0;
      const auto next = [&]() -> Result<std::optional<uint64_t>> {
        if (++asked <= 20) return asked;
        if (throws) throw std::bad_alloc();
        return fail(ENOMEM, "no list");
      };
      const Result<> done = parallel_for_each(next, {.threads = threads}, [&](uint64_t) -> Result<> {
        ++calls;
        return {};
      });
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().code, ENOMEM);
      EXPECT_EQ(done.error().reason, throws ? "out of memory" : "no list");
      EXPECT_EQ(asked, 21) << "not again after the error";
      EXPECT_LE(calls, 20);
    }
}

TEST(ParallelForEach, NoThreadAsksForNumbersAfterAnException) {
  // The helper asks while the loop does not know of the exception yet: its text, which becomes the loop's error, is not
  // there before the helper has returned.
  std::atomic<bool> thrown = false;
  std::atomic<bool> returned = false;
  class AsksThen : public SomeThreads {
   public:
    AsksThen(std::atomic<bool>& thrown, std::atomic<bool>& returned)
        : SomeThreads(1), thrown_(thrown), returned_(returned) {}
    void help(size_t count, const std::function<void()>& work) override {
      SomeThreads::help(count, [this, work] {
        while (!thrown_) std::this_thread::yield();
        work();
        returned_ = true;
      });
    }

   private:
    std::atomic<bool>& thrown_;
    std::atomic<bool>& returned_;
  } helper(thrown, returned);
  struct SlowText : std::exception {
    explicit SlowText(const std::atomic<bool>& ready) : is_ready(ready) {}
    [[nodiscard]] const char* what() const noexcept override {
      while (!is_ready) std::this_thread::yield();
      return "no list";
    }
    const std::atomic<bool>& is_ready;
  };
  std::atomic<int> asked = 0;
  const auto next = [&]() -> Result<std::optional<uint64_t>> {
    if (++asked > 1) return std::nullopt;
    thrown = true;
    throw SlowText(returned);
  };
  const Result<> done =
      parallel_for_each(next, {.helpers = &helper}, [](uint64_t) -> Result<> { return fail(EINVAL, "was called"); });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, EIO);
  EXPECT_TRUE(done.error().reason.contains("no list")) << done.error().reason;
  EXPECT_EQ(asked, 1);
}

TEST(ParallelForEach, CanBeCancelled) {
  for (const size_t threads : {1, 4}) {
    Source source{.count = 1'000'000};
    const Result<> done =
        parallel_for_each([&] { return source.next(); },
                          {.threads = threads, .cancelled = [&] { return source.taken == 5; }},  // one thread at a time
                          [](uint64_t) -> Result<> { return {}; });
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ECANCELED);
    EXPECT_EQ(source.taken, 5);
  }
}

}  // namespace
}  // namespace codecfs
