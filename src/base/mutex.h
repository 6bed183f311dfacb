#pragma once
// Mutexes and locks of the standard library with clang's thread-safety annotations, which state in code what a mutex
// guards. clang checks them (-Wthread-safety, scripts/check-threads); other compilers ignore them. The order in which
// threads take several is that of their ranks, which builds for tests check at run time (base/lock_order.h). In other
// builds nothing here costs time or space.
//
//   class Counter {
//    public:
//     void add(int n) {
//       const LockGuard lock(mutex_);
//       add_locked(n);
//     }
//
//    private:
//     void add_locked(int n) CODECFS_REQUIRES(mutex_) { sum_ += n; }
//
//     Mutex mutex_;
//     int sum_ CODECFS_GUARDED_BY(mutex_) = 0;
//   };
//
// The analysis does not follow locks that are taken under a condition, moved, or returned: std::unique_lock<Mutex> and
// std::shared_lock<SharedMutex> are for these, and are not analysed. It does not see either that a lambda is called
// under the lock of its caller: annotate the lambda, `[&]() CODECFS_REQUIRES(mutex_) { return sum_ > 0; }`.
//
// std::condition_variable_any accepts a UniqueLock where a wait needs a stop token or another mutex than Mutex.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "base/lock_order.h"

#ifdef __clang__
#define CODECFS_THREAD_ANNOTATION(annotation) __attribute__((annotation))
#else
#define CODECFS_THREAD_ANNOTATION(annotation)
#endif

// Of members: reading and writing them needs this mutex (shared is enough for reading), or, of pointers, access to what
// they point at.
#define CODECFS_GUARDED_BY(mutex) CODECFS_THREAD_ANNOTATION(guarded_by(mutex))
#define CODECFS_PT_GUARDED_BY(mutex) CODECFS_THREAD_ANNOTATION(pt_guarded_by(mutex))
// Of functions: the caller must hold the mutexes, or must not hold them.
#define CODECFS_REQUIRES(...) CODECFS_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define CODECFS_REQUIRES_SHARED(...) CODECFS_THREAD_ANNOTATION(requires_shared_capability(__VA_ARGS__))
#define CODECFS_EXCLUDES(...) CODECFS_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
// Of functions that lock and unlock.
#define CODECFS_ACQUIRE(...) CODECFS_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define CODECFS_ACQUIRE_SHARED(...) CODECFS_THREAD_ANNOTATION(acquire_shared_capability(__VA_ARGS__))
#define CODECFS_TRY_ACQUIRE(...) CODECFS_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define CODECFS_TRY_ACQUIRE_SHARED(...) CODECFS_THREAD_ANNOTATION(try_acquire_shared_capability(__VA_ARGS__))
#define CODECFS_RELEASE(...) CODECFS_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define CODECFS_RELEASE_SHARED(...) CODECFS_THREAD_ANNOTATION(release_shared_capability(__VA_ARGS__))
#define CODECFS_RELEASE_GENERIC(...) CODECFS_THREAD_ANNOTATION(release_generic_capability(__VA_ARGS__))
#define CODECFS_RETURN_CAPABILITY(mutex) CODECFS_THREAD_ANNOTATION(lock_returned(mutex))
// Of classes: mutexes, and locks that hold a mutex during their lifetime.
#define CODECFS_CAPABILITY(name) CODECFS_THREAD_ANNOTATION(capability(name))
#define CODECFS_SCOPED_CAPABILITY CODECFS_THREAD_ANNOTATION(scoped_lockable)
// Of functions whose locking the analysis cannot follow; a comment must say why they are right.
#define CODECFS_NO_THREAD_SAFETY_ANALYSIS CODECFS_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace codecfs {

/// `rank`, here and below: its place in the order of locks.
class CODECFS_CAPABILITY("mutex") Mutex {
 public:
  constexpr explicit Mutex(LockRank rank = LockRank::leaf) : order_(rank) {}
  void lock() CODECFS_ACQUIRE() {
    order_.taking();
    mutex_.lock();
    order_.taken();
  }
  void unlock() CODECFS_RELEASE() {
    order_.released();
    mutex_.unlock();
  }
  bool try_lock() CODECFS_TRY_ACQUIRE(true) {
    const bool is_mine = mutex_.try_lock();
    if (is_mine) order_.taken();
    return is_mine;
  }
  std::mutex& native() { return mutex_; }

 private:
  std::mutex mutex_;
  [[no_unique_address]] LockOrder order_;
};

class CODECFS_CAPABILITY("mutex") RecursiveMutex {
 public:
  explicit RecursiveMutex(LockRank rank) : order_(rank, true) {}
  void lock() CODECFS_ACQUIRE() {
    order_.taking();
    mutex_.lock();
    order_.taken();
  }
  void unlock() CODECFS_RELEASE() {
    order_.released();
    mutex_.unlock();
  }

 private:
  std::recursive_mutex mutex_;
  [[no_unique_address]] LockOrder order_;
};

/// A thread that holds it shared must not lock it again, shared or not.
class CODECFS_CAPABILITY("mutex") SharedMutex {
 public:
  explicit SharedMutex(LockRank rank = LockRank::leaf) : order_(rank) {}
  void lock() CODECFS_ACQUIRE() {
    order_.taking();
    mutex_.lock();
    order_.taken();
  }
  void unlock() CODECFS_RELEASE() {
    order_.released();
    mutex_.unlock();
  }
  bool try_lock() CODECFS_TRY_ACQUIRE(true) {
    const bool is_mine = mutex_.try_lock();
    if (is_mine) order_.taken();
    return is_mine;
  }
  void lock_shared() CODECFS_ACQUIRE_SHARED() {
    order_.taking();
    mutex_.lock_shared();
    order_.taken();
  }
  void unlock_shared() CODECFS_RELEASE_SHARED() {
    order_.released();
    mutex_.unlock_shared();
  }
  bool try_lock_shared() CODECFS_TRY_ACQUIRE_SHARED(true) {
    const bool is_mine = mutex_.try_lock_shared();
    if (is_mine) order_.taken();
    return is_mine;
  }

 private:
  std::shared_mutex mutex_;
  [[no_unique_address]] LockOrder order_;
};

/// Holds a mutex exclusively during its lifetime.
template <class M>
class CODECFS_SCOPED_CAPABILITY [[nodiscard]] LockGuard {
 public:
  explicit LockGuard(M& mutex) CODECFS_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~LockGuard() CODECFS_RELEASE() { mutex_.unlock(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  M& mutex_;
};

/// Holds a mutex shared during its lifetime.
template <class M>
class CODECFS_SCOPED_CAPABILITY [[nodiscard]] SharedLock {
 public:
  explicit SharedLock(M& mutex) CODECFS_ACQUIRE_SHARED(mutex) : mutex_(mutex) { mutex_.lock_shared(); }
  ~SharedLock() CODECFS_RELEASE_GENERIC() { mutex_.unlock_shared(); }
  SharedLock(const SharedLock&) = delete;
  SharedLock& operator=(const SharedLock&) = delete;

 private:
  M& mutex_;
};

/// Holds a mutex exclusively, with pauses: unlock() and lock(), or waits of a condition variable.
template <class M>
class CODECFS_SCOPED_CAPABILITY [[nodiscard]] UniqueLock {
 public:
  explicit UniqueLock(M& mutex) CODECFS_ACQUIRE(mutex) : mutex_(mutex) { lock(); }
  ~UniqueLock() CODECFS_RELEASE() {
    if (owns_) mutex_.unlock();
  }
  UniqueLock(const UniqueLock&) = delete;
  UniqueLock& operator=(const UniqueLock&) = delete;

  void lock() CODECFS_ACQUIRE() {
    mutex_.lock();
    owns_ = true;
  }
  void unlock() CODECFS_RELEASE() {
    owns_ = false;
    mutex_.unlock();
  }
  [[nodiscard]] bool owns_lock() const { return owns_; }
  M& mutex() { return mutex_; }

 private:
  M& mutex_;
  bool owns_ = false;
};

/// std::condition_variable for a UniqueLock<Mutex>, which must own its mutex. The mutex is released during a wait,
/// which the analysis does not know: read guarded members again after it.
class ConditionVariable {
 public:
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

  void wait(UniqueLock<Mutex>& lock) {
    const Adopted adopted(lock);
    condition_.wait(adopted.lock);
  }
  template <class Predicate>
  void wait(UniqueLock<Mutex>& lock, Predicate predicate) CODECFS_NO_THREAD_SAFETY_ANALYSIS {
    while (!predicate()) wait(lock);
  }
  template <class Clock, class Duration>
  std::cv_status wait_until(UniqueLock<Mutex>& lock, const std::chrono::time_point<Clock, Duration>& end) {
    const Adopted adopted(lock);
    return condition_.wait_until(adopted.lock, end);
  }
  /// Returns the predicate's value at the end.
  template <class Rep, class Period, class Predicate>
  bool wait_for(UniqueLock<Mutex>& lock, const std::chrono::duration<Rep, Period>& most,
                Predicate predicate) CODECFS_NO_THREAD_SAFETY_ANALYSIS {
    const auto end = std::chrono::steady_clock::now() + most;
    while (!predicate())
      if (wait_until(lock, end) == std::cv_status::timeout) return predicate();
    return true;
  }

 private:
  /// The mutex as std::condition_variable expects it; still locked when this is destroyed.
  struct Adopted {
    explicit Adopted(UniqueLock<Mutex>& from) : lock(from.mutex().native(), std::adopt_lock) {}
    ~Adopted() { lock.release(); }
    Adopted(const Adopted&) = delete;
    Adopted& operator=(const Adopted&) = delete;

    mutable std::unique_lock<std::mutex> lock;
  };

  std::condition_variable condition_;
};

}  // namespace codecfs
