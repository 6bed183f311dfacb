#include "backends/worker/held_writes.h"

#include <iterator>
#include <utility>

namespace codecfs::worker {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{8} << 20;  // of the small ones
constexpr size_t kMaxWrites = 256;

}  // namespace

void HeldWrites::Write::put_in(rpc::Encoder& request) const {
  if (call == call_of<&hdf5::IsolatedSource::write_encoded>)
    rpc::put_arguments<&hdf5::IsolatedSource::write_encoded>(request, variable, chunk, chain, filter_mask, bytes);
  else if (call == call_of<&Source::remove_chunk>)
    rpc::put_arguments<&Source::remove_chunk>(request, variable, chunk);
  else  // or write_stored(), which has the same
    rpc::put_arguments<&Source::write_chunk>(request, variable, chunk, bytes);
}

Result<uint64_t> HeldWrites::add(Write write, uint64_t losses) {
  Held held{.write = std::move(write), .losses = losses};
  if (!held.is_large() && !held.write.owner) {
    CODECFS_ASSIGN(Buffer copy, Buffer::copy_of(held.write.bytes));
    held.write.owner = std::make_shared<const Buffer>(std::move(copy));
    held.write.bytes = held.write.owner->bytes();
  }
  const LockGuard lock(mutex_);
  if (!held.is_large()) bytes_ += held.write.bytes.size();
  held.number = ++latest_;
  held_.emplace(latest_, std::move(held));
  return latest_;
}

bool HeldWrites::confirm(uint64_t number) {
  const LockGuard lock(mutex_);
  Held& held = held_.at(number);
  held.is_confirmed = true;
  return held.is_large() || bytes_ >= kMaxBytes || held_.size() >= kMaxWrites;
}

void HeldWrites::confirm_again(uint64_t number, uint64_t losses) {
  constexpr uint64_t kOutOfDate = UINT64_MAX;
  const LockGuard lock(mutex_);
  const auto found = held_.find(number);
  if (found == held_.end()) return;
  const Write& made = found->second.write;
  found->second.losses = losses;
  for (auto later = std::next(found); later != held_.end(); ++later)
    if (later->second.write.variable == made.variable && later->second.write.chunk == made.chunk)
      later->second.losses = kOutOfDate;
}

bool HeldWrites::drop_if_current(uint64_t number, uint64_t losses) {
  {
    const LockGuard lock(mutex_);
    const auto found = held_.find(number);
    if (found != held_.end() && found->second.losses != losses) return false;
  }
  drop(number);
  return true;
}

void HeldWrites::drop(uint64_t number) {
  const LockGuard lock(mutex_);
  const auto found = held_.find(number);
  if (found == held_.end()) return;
  if (!found->second.is_large()) bytes_ -= found->second.write.bytes.size();
  held_.erase(found);
}

bool HeldWrites::is_empty() const {
  const LockGuard lock(mutex_);
  return held_.empty();
}

std::vector<HeldWrites::Held> HeldWrites::confirmed() const {
  const LockGuard lock(mutex_);
  std::vector<Held> found;
  for (const auto& [number, held] : held_)
    if (held.is_confirmed) found.push_back(held);
  return found;
}

Result<> HeldWrites::make_again(const std::function<Result<>(const Write&)>& make) {
  const LockGuard lock(mutex_);
  for (auto& [number, held] : held_) {
    if (!held.is_confirmed && std::exchange(held.is_suspect, true)) continue;
    CODECFS_TRY(make(held.write));
    held.is_suspect = false;
  }
  return {};
}

}  // namespace codecfs::worker
