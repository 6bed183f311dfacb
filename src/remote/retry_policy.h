#pragma once
// How often and how long failed requests of a client are repeated. Thread-safe.
//
// Waiting times double, with full jitter ("Exponential Backoff And Jitter", AWS Architecture Blog). All requests of a
// client share a budget, which time fills again, so that a server that always fails is not sent many times the
// requests.

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>

#include "base/mutex.h"

namespace codecfs::remote {

class RetryPolicy {
 public:
  using Clock = std::chrono::steady_clock;
  explicit RetryPolicy(std::chrono::seconds most) : most_(most) {}

  /// How long to wait before the next attempt; none if there is to be none. `failures`: of this request so far, 1 or
  /// more. `asked`: the server wants it to be at least this long.
  std::optional<std::chrono::milliseconds> next_wait(Clock::time_point began, unsigned failures,
                                                     std::chrono::milliseconds asked = {}) {
    const LockGuard lock(mutex_);
    const auto longest = std::min<std::chrono::milliseconds>(kLongest, kFirst * (1LL << std::min(failures - 1, 16U)));
    std::uniform_int_distribution<long long> jitter(0, longest.count());
    const auto wait =
        std::max(std::chrono::milliseconds(jitter(random_)), std::min<std::chrono::milliseconds>(asked, kLongest));
    const auto now = Clock::now();
    budget_ = std::min(budget_ + std::chrono::duration<double>(now - filled_).count() * kPerSecond, kBudget);
    filled_ = now;
    if (budget_ < 1 || now + wait - began > most_) return std::nullopt;
    budget_ -= 1;
    return wait;
  }

 private:
  static constexpr std::chrono::milliseconds kFirst{100};
  static constexpr std::chrono::milliseconds kLongest{20000};
  static constexpr double kBudget = 1000;  // repetitions
  static constexpr double kPerSecond = 20;

  const std::chrono::seconds most_;
  Mutex mutex_;
  double budget_ CODECFS_GUARDED_BY(mutex_) = kBudget;
  Clock::time_point filled_ CODECFS_GUARDED_BY(mutex_) = Clock::now();
  std::minstd_rand random_ CODECFS_GUARDED_BY(mutex_){std::random_device()()};
};

}  // namespace codecfs::remote
