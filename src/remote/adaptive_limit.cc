#include "remote/adaptive_limit.h"

#include <algorithm>

#include "base/interruption.h"

namespace codecfs::remote {
namespace {

constexpr size_t kLeastLimit = 2;             // requests
constexpr double kRequest = 64 << 10;         // bytes that a request counts as, beside its own
constexpr double kGain = 1.1;                 // of the throughput, for which more requests are worth it
constexpr unsigned kTrialAfter = 10;          // intervals
constexpr std::chrono::seconds kRecovery{1};  // between two halvings: others fail for the same reason

}  // namespace

AdaptiveLimit::AdaptiveLimit(size_t most)
    : most_(std::max<size_t>(most, 1)), limit_(std::min(most_, kFirst)), begin_(Clock::now()) {}

std::optional<AdaptiveLimit::Permit> AdaptiveLimit::acquire() {
  UniqueLock lock(mutex_);
  const auto has_room = [&]() CODECFS_REQUIRES(mutex_) { return running_ < limit_; };
  if (!has_room()) is_full_ = true;
  if (!Interruption::wait(freed_, lock, has_room)) return std::nullopt;
  ++running_;
  return Permit(this);
}

void AdaptiveLimit::release() {
  const LockGuard lock(mutex_);
  --running_;
  freed_.notify_one();
}

void AdaptiveLimit::succeeded(uint64_t bytes, Clock::time_point now) {
  const LockGuard lock(mutex_);
  amount_ += static_cast<double>(bytes) + kRequest;
  ++requests_;
  const auto time = now - begin_;
  if (time < kInterval || requests_ < limit_ / 2) return;
  const double throughput = amount_ / std::chrono::duration<double>(time).count();
  if (is_full_) end_interval(throughput);
  begin_ = now;
  amount_ = 0;
  requests_ = 0;
  is_full_ = running_ >= limit_;
}

/// Ends an interval in which requests had to wait.
void AdaptiveLimit::end_interval(double throughput) {
  if (raised_by_ != 0 && throughput <= before_ * kGain) {  // more are not faster
    limit_ -= raised_by_;
    raised_by_ = 0;
    steady_ = 0;
    return;
  }
  if (raised_by_ == 0 && before_ != 0 && ++steady_ < kTrialAfter) return;
  before_ = throughput;
  steady_ = 0;
  raised_by_ = std::min(kStep, most_ - limit_);
  limit_ += raised_by_;
  freed_.notify_all();
}

void AdaptiveLimit::overloaded(Clock::time_point now) {
  const LockGuard lock(mutex_);
  if (now - halved_ < kRecovery) return;
  halved_ = now;
  limit_ = std::min(std::max(limit_ / 2, kLeastLimit), most_);
  before_ = 0;
  raised_by_ = 0;
  steady_ = 0;
  begin_ = now;
  amount_ = 0;
  requests_ = 0;
}

size_t AdaptiveLimit::limit() const {
  const LockGuard lock(mutex_);
  return limit_;
}

}  // namespace codecfs::remote
