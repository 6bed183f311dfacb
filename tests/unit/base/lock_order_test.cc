// Only in builds that check the order of locks, as those with sanitizers do.

#include "base/lock_order.h"

#ifdef CODECFS_CHECK_LOCKS

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>

#include "base/fair_shared_mutex.h"
#include "base/mutex.h"
#include "base/parallel.h"

namespace codecfs {
namespace {

class LockOrderDeathTest : public testing::Test {
 protected:
  LockOrderDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  SharedMutex layout_{LockRank::layout};
  FairSharedMutex names_{LockRank::names};
  Mutex committing_{LockRank::committing};
  RecursiveMutex library_{LockRank::library};
  Mutex leaf_;
};

TEST_F(LockOrderDeathTest, TakesThemInOrder) {
  {
    const SharedLock layout(layout_);
    const LockGuard names(names_);
    const LockGuard library(library_);
    const LockGuard again(library_);
    const LockGuard leaf(leaf_);
  }
  const LockGuard library(library_);
  const LockGuard leaf(leaf_);
}

TEST_F(LockOrderDeathTest, RefusesTheOtherOrder) {
  const char* const refusal = "locks in the wrong order: names .*Tree::names.* under library .*LibraryLock";
  const LockGuard library(library_);
  EXPECT_DEATH(names_.lock(), refusal);
  EXPECT_DEATH(names_.lock_shared(), refusal);
  EXPECT_DEATH(layout_.lock(), "layout .* under library");
  EXPECT_DEATH(layout_.lock_shared(), "layout .* under library");
  EXPECT_DEATH(committing_.lock(), "committing .* under library");
  EXPECT_DEATH(std::unique_lock lock(committing_), "committing .* under library");
  const LockGuard leaf(leaf_);
  EXPECT_DEATH(library_.lock(), "library .* under leaf") << "recursive, but not after another";
}

TEST_F(LockOrderDeathTest, RefusesTwoOfOneRank) {
  Mutex other;
  const LockGuard leaf(leaf_);
  EXPECT_DEATH(other.lock(), "leaf .* under leaf");
  EXPECT_DEATH(leaf_.lock(), "leaf .* under leaf");
  EXPECT_TRUE(other.try_lock()) << "waits for nothing";
  other.unlock();
}

TEST_F(LockOrderDeathTest, RefusesToShareTwice) {
  const SharedLock names(names_);
  EXPECT_DEATH(names_.lock_shared(), "names .* under names");
}

TEST_F(LockOrderDeathTest, KnowsWhatWasReleasedInAnyOrder) {
  names_.lock();
  leaf_.lock();
  names_.unlock();
  EXPECT_DEATH(names_.lock(), "names .* under leaf");
  leaf_.unlock();
  names_.lock();
  names_.unlock();
}

TEST_F(LockOrderDeathTest, CountsWhatWasTaken) {
  ASSERT_TRUE(leaf_.try_lock());
  EXPECT_DEATH(names_.lock(), "names .* under leaf");
  leaf_.unlock();
  const LockGuard names(names_);
}

TEST_F(LockOrderDeathTest, WaitsOfAConditionKeepTheOrder) {
  ConditionVariable changed;
  UniqueLock lock(committing_);
  EXPECT_FALSE(changed.wait_for(lock, std::chrono::milliseconds(1), [] { return false; }));
  EXPECT_DEATH(names_.lock(), "names .* under committing");
}

TEST_F(LockOrderDeathTest, ThreadsOfALoopHaveTheLocksOfTheCaller) {
  const auto loop = [this] {
    const LockGuard names(names_);
    std::atomic<int> started = 0;
    return parallel_for(2, {.threads = 2}, [&](uint64_t number) -> Result<> {
      ++started;
      while (started < 2) {
      }
      if (number == 1) const SharedLock layout(layout_);
      return {};
    });
  };
  EXPECT_DEATH((void)loop(), "layout .* under names");
  {
    const LockGuard names(names_);
    const auto take_leaf = [this](uint64_t) -> Result<> {
      const LockGuard leaf(leaf_);
      return {};
    };
    EXPECT_TRUE(parallel_for(20, {.threads = 2}, take_leaf));
  }
  const LockGuard layout(layout_);
}

TEST_F(LockOrderDeathTest, AForkedProcessHoldsNone) {
  const LockGuard leaf(leaf_);
  const pid_t child = ::fork();
  if (child == 0) {
    forget_held_locks();
    names_.lock();
    ::_exit(7);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

}  // namespace
}  // namespace codecfs

#endif
