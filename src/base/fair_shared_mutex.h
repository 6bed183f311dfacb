#pragma once
// A shared mutex that does not starve writers: while a thread waits in lock(), new calls of lock_shared() wait behind
// it. A thread must not hold it shared twice, as the second lock_shared() could deadlock.

#include "base/mutex.h"

namespace codecfs {

class CODECFS_CAPABILITY("mutex") FairSharedMutex {
 public:
  explicit FairSharedMutex(LockRank rank = LockRank::leaf) : order_(rank) {}
  void lock() CODECFS_ACQUIRE() {
    order_.taking();
    {
      const std::lock_guard turn(turn_);
      mutex_.lock();
    }
    order_.taken();
  }
  void unlock() CODECFS_RELEASE() {
    order_.released();
    mutex_.unlock();
  }
  void lock_shared() CODECFS_ACQUIRE_SHARED() {
    order_.taking();
    {
      const std::lock_guard turn(turn_);
      mutex_.lock_shared();
    }
    order_.taken();
  }
  void unlock_shared() CODECFS_RELEASE_SHARED() {
    order_.released();
    mutex_.unlock_shared();
  }

 private:
  std::mutex turn_;
  std::shared_mutex mutex_;
  [[no_unique_address]] LockOrder order_;
};

}  // namespace codecfs
