#pragma once
// A std::shared_mutex whose owner comes soon, however many share it all the time: who comes to share it while somebody
// waits to own it waits behind him. Not to be shared twice by one thread.

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
