#pragma once
// A shared mutex that does not starve writers: while a thread waits in lock(), new calls of lock_shared() wait behind
// it. A thread must not hold it shared twice, as the second lock_shared() could deadlock.

#include "base/mutex.h"

namespace codecfs {

class CODECFS_CAPABILITY("mutex") FairSharedMutex {
 public:
  // The analysis checks the users of this class, not the mutexes that it is made of.
  void lock() CODECFS_ACQUIRE() CODECFS_NO_THREAD_SAFETY_ANALYSIS {
    const LockGuard turn(turn_);
    mutex_.lock();
  }
  void unlock() CODECFS_RELEASE() CODECFS_NO_THREAD_SAFETY_ANALYSIS { mutex_.unlock(); }
  void lock_shared() CODECFS_ACQUIRE_SHARED() CODECFS_NO_THREAD_SAFETY_ANALYSIS {
    const LockGuard turn(turn_);
    mutex_.lock_shared();
  }
  void unlock_shared() CODECFS_RELEASE_SHARED() CODECFS_NO_THREAD_SAFETY_ANALYSIS { mutex_.unlock_shared(); }

 private:
  Mutex turn_;
  SharedMutex mutex_;
};

}  // namespace codecfs
