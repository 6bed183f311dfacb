#pragma once
// How many requests run at a time: as many as a server and the way to it can use, at most `most`. Thread-safe.
//
// In intervals in which requests have to wait for each other it rises by kStep, as long as each step makes the
// throughput 10 % better; a step that does not is taken back, and tried again a second later. It is halved when the
// server is overloaded.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/mutex.h"

namespace codecfs::remote {

class AdaptiveLimit {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kFirst = 64;  // requests
  static constexpr size_t kStep = 8;
  static constexpr std::chrono::milliseconds kInterval{100};

  explicit AdaptiveLimit(size_t most);

  /// A request may run. Destroyed when it has ended.
  class Permit {
   public:
    Permit(Permit&& other) noexcept : limit_(std::exchange(other.limit_, nullptr)) {}
    Permit& operator=(Permit&&) = delete;
    Permit(const Permit&) = delete;
    Permit& operator=(const Permit&) = delete;
    ~Permit() {
      if (limit_ != nullptr) limit_->release();
    }

   private:
    friend class AdaptiveLimit;
    explicit Permit(AdaptiveLimit* limit) : limit_(limit) {}
    AdaptiveLimit* limit_;
  };
  /// Waits until fewer requests run than the limit. None: Interruption of the thread.
  std::optional<Permit> acquire();
  /// A request has ended with so many bytes at this time.
  void succeeded(uint64_t bytes, Clock::time_point now = Clock::now());
  /// The server has no room for it: 429, 503, or no answer in time.
  void overloaded(Clock::time_point now = Clock::now());
  [[nodiscard]] size_t limit() const;

 private:
  void release();
  void end_interval(double throughput) CODECFS_REQUIRES(mutex_);

  const size_t most_;
  mutable Mutex mutex_;
  ConditionVariable freed_;
  size_t limit_ CODECFS_GUARDED_BY(mutex_);
  size_t running_ CODECFS_GUARDED_BY(mutex_) = 0;
  // The present interval.
  Clock::time_point begin_ CODECFS_GUARDED_BY(mutex_);
  double amount_ CODECFS_GUARDED_BY(mutex_) = 0;     // of bytes, and of requests in bytes
  size_t requests_ CODECFS_GUARDED_BY(mutex_) = 0;   // that ended
  bool is_full_ CODECFS_GUARDED_BY(mutex_) = false;  // a request had to wait
  double before_ CODECFS_GUARDED_BY(mutex_) = 0;     // throughput before the last step
  size_t raised_by_ CODECFS_GUARDED_BY(mutex_) = 0;  // the last step, of which it is not known whether it gains
  unsigned steady_ CODECFS_GUARDED_BY(mutex_) = 0;   // intervals without a step
  Clock::time_point halved_ CODECFS_GUARDED_BY(mutex_){};
};

}  // namespace codecfs::remote
