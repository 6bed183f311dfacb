#include "fs/passthrough/memory_growth.h"

#include <algorithm>

namespace codecfs::fs {
namespace {

// Passing a chunk through in place of pushing it saves as much processor time as this many copies of it.
constexpr double kSaved = 6;
// What a copy can cost, ns per byte: a write that costs less or more was not measured well, or is no mere copy.
constexpr double kFastest = 0.02;
constexpr double kSlowest = 0.2;
constexpr uint64_t kLongestPause = uint64_t{8} << 30;  // bytes

}  // namespace

void MemoryGrowth::seen(uint64_t bytes) {
  if (balance_ >= 0) return;
  waited_ += bytes;
  if (waited_ >= pause_) balance_ = 0;
}

void MemoryGrowth::written(uint64_t total, uint64_t bytes, Cost cost) {
  const auto size = static_cast<double>(bytes);
  const auto time = static_cast<double>(cost.count());
  const double measured = std::clamp(time / size, kFastest, kSlowest);
  per_byte_ = is_measured_ ? std::min(per_byte_, measured) : measured;
  is_measured_ = true;
  if (total <= had_) return;
  had_ = total;
  const bool was_growing = balance_ >= 0;
  const bool was_trial = waited_ != 0;
  balance_ = std::min(balance_ + (1 + kSaved) * per_byte_ * size - time, kMaxBalance);
  if (balance_ >= kMaxBalance) {
    pause_ = kFirstPause;
  } else if (was_growing && balance_ < 0 && was_trial) {
    pause_ = std::min(2 * pause_, kLongestPause);
  }
  if (balance_ < 0 || balance_ >= kMaxBalance) waited_ = 0;
}

}  // namespace codecfs::fs
