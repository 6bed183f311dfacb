#include "backends/hdf5/library/access_recorder.h"

#include <algorithm>

namespace codecfs::hdf5 {
namespace {

constexpr size_t kMaxKnown = 100'000;  // addresses

bool any_newer(const std::unordered_map<uint64_t, Error>& damaged) {
  return std::ranges::any_of(damaged, [](const auto& known) { return known.second.code == kNewerFormat; });
}

}  // namespace

AccessRecorder::AccessRecorder(std::unordered_map<uint64_t, Error> damaged, FindNewer find_newer)
    : damaged_(std::move(damaged)), find_newer_(std::move(find_newer)), looks_ahead_(any_newer(damaged_)) {}

Result<> AccessRecorder::check_version(uint64_t address) const {
  if (!find_newer_) return {};
  if (const auto newer = find_newer_(address, true)) return fail(kNewerFormat, "{}", *newer);
  return {};
}

Result<> AccessRecorder::look_ahead(uint64_t address) const {
  if (!find_newer_) return {};
  {
    const LockGuard lock(mutex_);
    if (sound_.contains(address)) return {};
  }
  // Not remembered: another object may get the address.
  if (const auto newer = find_newer_(address, false)) return fail(kNewerFormat, "{}", *newer);
  const LockGuard lock(mutex_);
  if (sound_.size() >= kMaxKnown) sound_.clear();
  sound_.insert(address);
  return {};
}

}  // namespace codecfs::hdf5
