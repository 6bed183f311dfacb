#pragma once
// Whether the present thread may stop waiting for what may never come: an answer of a network.
//
// The function that begins a long operation (a FUSE request, a command) knows when its result is no longer wanted; the
// function that waits is many floors below. So the first opens an Interruption::Scope in its thread, and the second
// asks the Interruption. A wait that ends so is the error EINTR, which must not be kept for other callers.
//
//   const Interruption::Check is_unwanted = [request] { return fuse_req_interrupted(request) != 0; };
//   const Interruption::Scope scope(&is_unwanted);

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "base/mutex.h"
#include "base/result.h"

namespace codecfs {

class Interruption {
 public:
  /// Called from any thread that works for the one with the scope.
  using Check = std::function<bool()>;
  static constexpr std::chrono::milliseconds kInterval{100};  // between two calls of it

  /// Sets the check of this thread during its lifetime; null: it cannot be interrupted.
  class [[nodiscard]] Scope {
   public:
    explicit Scope(const Check* check) : before_(current_) { current_ = check; }
    ~Scope() { current_ = before_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const Check* const before_;
  };

  /// For the scopes of threads that work for this one, which must wait for them. Null if there is none.
  static const Check* current() { return current_; }
  static bool is_requested() { return current_ != nullptr && (*current_)(); }
  /// The error of an interrupted function.
  static std::unexpected<Error> error() { return std::unexpected(Error{EINTR, "interrupted"}); }

  /// Waits for the predicate. False if the thread was interrupted before. Not analysed, as ConditionVariable::wait():
  /// the analysis does not see that the lock is that of the predicate.
  template <class Predicate>
  static bool wait(ConditionVariable& condition, UniqueLock<Mutex>& lock,
                   Predicate predicate) CODECFS_NO_THREAD_SAFETY_ANALYSIS {
    if (current_ == nullptr) {
      condition.wait(lock, predicate);
      return true;
    }
    while (!predicate()) {
      const bool is_over = check_without(lock);
      if (is_over) return predicate();
      (void)condition.wait_for(lock, kInterval, predicate);
    }
    return true;
  }

  /// Whether it slept for all of the time.
  static bool sleep(std::chrono::milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    for (auto left = time; left.count() > 0;
         left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now())) {
      if (is_requested()) return false;
      std::this_thread::sleep_for(current_ != nullptr ? std::min(left, kInterval) : left);
    }
    return true;
  }

  /// Holds a mutex that others may hold for as long as they wait for a network.
  class CODECFS_SCOPED_CAPABILITY [[nodiscard]] Guard {
   public:
    explicit Guard(Mutex& mutex) CODECFS_ACQUIRE(mutex) : mutex_(mutex), owns_(acquire(mutex)) {}
    ~Guard() CODECFS_RELEASE() {
      if (owns_) mutex_.unlock();
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    /// False if the thread was interrupted before: then the caller must return.
    [[nodiscard]] bool owns_lock() const { return owns_; }

   private:
    static bool acquire(Mutex& mutex) CODECFS_NO_THREAD_SAFETY_ANALYSIS {
      if (current_ == nullptr) {
        mutex.lock();
        return true;
      }
      while (!mutex.try_lock())
        if (!sleep(std::chrono::milliseconds(5))) return false;
      return true;
    }

    Mutex& mutex_;
    const bool owns_;
  };

 private:
  /// The check may take other locks.
  static bool check_without(UniqueLock<Mutex>& lock) CODECFS_NO_THREAD_SAFETY_ANALYSIS {
    struct Unlocked {
      explicit Unlocked(UniqueLock<Mutex>& held) : lock(held) { lock.unlock(); }
      ~Unlocked() { lock.lock(); }
      Unlocked(const Unlocked&) = delete;
      Unlocked& operator=(const Unlocked&) = delete;
      UniqueLock<Mutex>& lock;
    };
    const Unlocked unlocked(lock);
    return (*current_)();
  }

  static inline thread_local const Check* current_ = nullptr;
};

}  // namespace codecfs
