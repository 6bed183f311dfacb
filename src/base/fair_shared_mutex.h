#pragma once
// A shared mutex that does not starve writers: while a thread waits in lock(), new calls of lock_shared() wait behind
// it. A thread must not hold it shared twice, as the second lock_shared() could deadlock.

#include <mutex>
#include <shared_mutex>

namespace codecfs {

class FairSharedMutex {
 public:
  void lock() {
    const std::lock_guard turn(turn_);
    mutex_.lock();
  }
  void unlock() { mutex_.unlock(); }
  void lock_shared() {
    const std::lock_guard turn(turn_);
    mutex_.lock_shared();
  }
  void unlock_shared() { mutex_.unlock_shared(); }

 private:
  std::mutex turn_;
  std::shared_mutex mutex_;
};

}  // namespace codecfs
