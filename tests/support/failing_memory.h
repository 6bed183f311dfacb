#pragma once
// Allocations that fail, one after the other: a test calls the same operation again and again, and each time the next
// one of its allocations by `new` throws std::bad_alloc. For programs that are built with failing_memory.cc.

#include <gtest/gtest.h>

#include <new>

#include "base/result.h"

namespace codecfs {

/// During its lifetime, one allocation of this thread fails: the first after `passed` others.
class FailingMemory {
 public:
  explicit FailingMemory(int passed);
  ~FailingMemory();
  FailingMemory(const FailingMemory&) = delete;
  FailingMemory& operator=(const FailingMemory&) = delete;
  /// Whether it has.
  [[nodiscard]] static bool has_failed();
};

/// The result of a function without a value, in which std::bad_alloc is ENOMEM, as of a request.
template <class Function>
Result<> without_memory_errors(Function function) {
  try {
    auto result = function();
    if (!result) return std::unexpected(result.error());
    return {};
  } catch (const std::bad_alloc&) {
    return std::unexpected(Error{ENOMEM, {}});
  }
}

/// Calls `act` once for each allocation that it makes, which fails, and once without a failure. An error of `act` must
/// be ENOMEM; it may also succeed. After each call `check` gets whether it did.
template <class Act, class Check>
void step_through_allocations(Act act, Check check) {
  constexpr int kMaxAllocations = 10'000;
  for (int passed = 0; passed < kMaxAllocations; ++passed) {
    SCOPED_TRACE(testing::Message() << "after " << passed << " allocations");
    Result<> done;
    bool has_failed = false;
    {
      const FailingMemory failing(passed);
      done = without_memory_errors(act);
      has_failed = FailingMemory::has_failed();
    }
    if (!done) {
      EXPECT_EQ(done.error().code, ENOMEM) << done.error().reason;
      EXPECT_TRUE(has_failed);
    }
    check(done.has_value());
    if (testing::Test::HasFatalFailure()) return;
    if (!has_failed) {
      EXPECT_TRUE(done);
      EXPECT_GT(passed, 0) << "it allocates nothing";
      return;
    }
  }
  ADD_FAILURE() << "it does not end";
}

}  // namespace codecfs
