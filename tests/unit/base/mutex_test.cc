#include "base/mutex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/fair_shared_mutex.h"

namespace codecfs {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

// The annotations cost nothing, nor does the order of locks where it is not checked.
#ifndef CODECFS_CHECK_LOCKS
static_assert(sizeof(Mutex) == sizeof(std::mutex));
static_assert(sizeof(SharedMutex) == sizeof(std::shared_mutex));
#endif
static_assert(sizeof(ConditionVariable) == sizeof(std::condition_variable));

template <class M>
bool is_free(M& mutex) {
  bool free = false;
  std::thread([&]() CODECFS_NO_THREAD_SAFETY_ANALYSIS {
    free = mutex.try_lock();
    if (free) mutex.unlock();
  }).join();
  return free;
}

TEST(Mutex, ALockGuardHoldsItUntilItIsDestroyed) {
  Mutex mutex;
  {
    const LockGuard lock(mutex);
    EXPECT_FALSE(is_free(mutex));
  }
  EXPECT_TRUE(is_free(mutex));
}

TEST(Mutex, AUniqueLockCanPause) {
  Mutex mutex;
  {
    UniqueLock lock(mutex);
    EXPECT_FALSE(is_free(mutex));
    lock.unlock();
    EXPECT_FALSE(lock.owns_lock());
    EXPECT_TRUE(is_free(mutex));
    lock.lock();
    EXPECT_FALSE(is_free(mutex));
    lock.unlock();
  }
  EXPECT_TRUE(is_free(mutex));
}

template <class M>
class SharedMutexes : public testing::Test {};
using AllSharedMutexes = testing::Types<SharedMutex, FairSharedMutex>;
TYPED_TEST_SUITE(SharedMutexes, AllSharedMutexes);

TYPED_TEST(SharedMutexes, ReadersShareItAndAWriterDoesNot) {
  TypeParam mutex;
  int value = 0;
  {
    const SharedLock lock(mutex);
    std::thread([&] { const SharedLock other(mutex); }).join();  // returns
  }
  std::thread writer([&] {
    const LockGuard lock(mutex);
    value = 1;
  });
  writer.join();
  const LockGuard lock(mutex);
  EXPECT_EQ(value, 1);
}

struct Flag {
  Mutex mutex;
  ConditionVariable changed;
  bool is_set CODECFS_GUARDED_BY(mutex) = false;
};

TEST(ConditionVariable, AWaitReleasesTheMutexAndOwnsItAfterwards) {
  Flag flag;
  std::thread setter([&] {
    const LockGuard lock(flag.mutex);
    flag.is_set = true;
    flag.changed.notify_all();
  });
  {
    UniqueLock lock(flag.mutex);
    flag.changed.wait(lock, [&]() CODECFS_REQUIRES(flag.mutex) { return flag.is_set; });
    EXPECT_TRUE(lock.owns_lock());
    EXPECT_FALSE(is_free(flag.mutex));
  }
  setter.join();
  EXPECT_TRUE(is_free(flag.mutex));
}

TEST(ConditionVariable, AWaitWithALimitReturnsThePredicate) {
  Flag flag;
  const auto is_set = [&]() CODECFS_REQUIRES(flag.mutex) { return flag.is_set; };
  UniqueLock lock(flag.mutex);
  EXPECT_FALSE(flag.changed.wait_for(lock, 5ms, is_set));
  flag.is_set = true;
  EXPECT_TRUE(flag.changed.wait_for(lock, 100s, is_set));
}

}  // namespace
}  // namespace codecfs
