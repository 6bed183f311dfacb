#include "fs/chunks/chunk_cache.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/interruption.h"

namespace codecfs::fs {
namespace {

// Pushed chunks that are kept. While a READ is on its way, no more are decoded ahead of its reader on two cores.
constexpr size_t kMaxPushed = 9;
constexpr uint64_t kShareOfPushed = 4;  // they take at most this fraction of the limit

}  // namespace

Result<ChunkPtr> ChunkCache::get(ChunkKey key, uint64_t estimate, const std::function<Result<Buffer>()>& decode) {
  UniqueLock lock(mutex_);
  for (auto found = slots_.find(key); found != slots_.end(); found = slots_.find(key)) {
    const std::shared_ptr<Slot> slot = found->second;
    slot->wanted = true;
    if (slot->ready) {
      if (!slot->pushed) ages_.splice(ages_.begin(), ages_, slot->age);
      ++stats_.cache_hits;
    } else {
      ++stats_.decodes_shared;
    }
    if (!Interruption::wait(changed_, lock, [&] { return slot->ready; })) return Interruption::error();
    // The thread that decoded it was interrupted, but this one was not.
    if (!slot->result && slot->result.error().code == EINTR && !Interruption::is_requested()) continue;
    return slot->result;
  }

  const auto slot = std::make_shared<Slot>();
  slot->wanted = true;
  slots_.emplace(key, slot);
  const bool has_room = Interruption::wait(
      changed_, lock, [&]() CODECFS_REQUIRES(mutex_) { return in_flight_ == 0 || in_flight_ + estimate <= limit_; });
  if (has_room) {
    decode_into(slot, key, estimate, decode);
  } else {
    slot->result = Interruption::error();
    if (!slot->dropped) slots_.erase(key);
    slot->ready = true;
    changed_.notify_all();
  }
  return slot->result;
}

ChunkPtr ChunkCache::fetch(ChunkKey key, uint64_t estimate, const std::function<Result<Buffer>()>& decode) {
  UniqueLock lock(mutex_);
  if (slots_.contains(key) || in_flight_ + estimate > limit_) return nullptr;
  if (std::ranges::find(done_, key) != done_.end()) return nullptr;
  const auto slot = std::make_shared<Slot>();
  slots_.emplace(key, slot);
  ++stats_.decodes_ahead;
  decode_into(slot, key, estimate, decode);
  return slot->result && !slot->wanted && !slot->dropped ? *slot->result : nullptr;
}

Result<ChunkPtr> ChunkCache::get_uncached(ChunkKey key, uint64_t estimate,
                                          const std::function<Result<Buffer>()>& decode) {
  UniqueLock lock(mutex_);
  if (const auto found = slots_.find(key); found != slots_.end()) {
    const std::shared_ptr<Slot> slot = found->second;
    ++(slot->ready ? stats_.cache_hits : stats_.decodes_shared);
    changed_.wait(lock, [&] { return slot->ready; });
    return slot->result;
  }
  const auto slot = std::make_shared<Slot>();
  slot->passing = true;
  slots_.emplace(key, slot);
  changed_.wait(lock, [&]() CODECFS_REQUIRES(mutex_) { return in_flight_ == 0 || in_flight_ + estimate <= limit_; });
  decode_into(slot, key, estimate, decode);
  return slot->result;
}

bool ChunkCache::is_wanted(ChunkKey key) {
  const LockGuard lock(mutex_);
  const auto found = slots_.find(key);
  return found != slots_.end() && found->second->wanted;
}

void ChunkCache::decode_into(const std::shared_ptr<Slot>& slot, ChunkKey key, uint64_t estimate,
                             const std::function<Result<Buffer>()>& decode) {
  in_flight_ += estimate;
  const uint64_t now = ++stats_.decodes_now;
  if (now > stats_.decodes_parallel) stats_.decodes_parallel = now;
  mutex_.unlock();

  Result<Buffer> decoded;
  try {
    decoded = decode();
  } catch (const std::exception& exception) {
    decoded = fail(EIO, "internal error: {}", exception.what());
  }

  mutex_.lock();
  in_flight_ -= estimate;
  --stats_.decodes_now;
  if (decoded) {
    ++stats_.chunks_decoded;
    stats_.bytes_decoded += decoded->size();
    const uint64_t bytes = decoded->capacity();
    slot->result = std::make_shared<const Buffer>(std::move(*decoded));
    if (!slot->dropped && slot->passing && !slot->wanted) {
      slots_.erase(key);
    } else if (!slot->dropped) {
      kept_ += bytes;
      slot->age = ages_.insert(ages_.begin(), key);
      make_room();
    }
  } else {
    slot->result = pass_on(decoded);
    if (!slot->dropped) slots_.erase(key);
  }
  slot->ready = true;
  stats_.cache_bytes = kept_;
  changed_.notify_all();
}

void ChunkCache::drop(ChunkKey key) {
  const LockGuard lock(mutex_);
  const auto found = slots_.find(key);
  if (found == slots_.end()) return;
  if (found->second->ready) {
    forget(key);
    stats_.cache_bytes = kept_;
  } else {
    found->second->dropped = true;
    slots_.erase(found);
  }
}

void ChunkCache::drop(ChunkKey first, uint64_t count) {
  std::vector<ChunkKey> known;
  {
    const LockGuard lock(mutex_);
    for (const auto& [key, slot] : slots_)
      if (key >= first && key - first < count) known.push_back(key);
  }
  for (const ChunkKey key : known) drop(key);
}

bool ChunkCache::served(ChunkKey key, uint64_t bytes) {
  const LockGuard lock(mutex_);
  const auto found = slots_.find(key);
  if (found == slots_.end() || !found->second->ready) return false;
  Slot& slot = *found->second;
  slot.served += bytes;
  const bool has_all = slot.served >= (*slot.result)->size();
  if (has_all) {
    forget(key);
    note_done(key);
  }
  stats_.cache_bytes = kept_;
  return has_all;
}

void ChunkCache::done(ChunkKey key) {
  const LockGuard lock(mutex_);
  note_done(key);
  const auto found = slots_.find(key);
  // A running decode began after the push, for a reader that needs its result.
  if (found == slots_.end() || !found->second->ready || found->second->pushed) return;
  Slot& slot = *found->second;
  slot.pushed = true;
  pushed_.splice(pushed_.begin(), ages_, slot.age);
  kept_pushed_ += (*slot.result)->capacity();
  while (pushed_.size() > kMaxPushed || kept_pushed_ > limit_ / kShareOfPushed) forget(pushed_.back());
  stats_.cache_bytes = kept_;
}

void ChunkCache::note_done(ChunkKey key) {
  constexpr size_t kRemembered = 64;
  done_.push_back(key);
  if (done_.size() > kRemembered) done_.pop_front();
}

void ChunkCache::make_room() {
  while (kept_ > limit_ && !pushed_.empty()) forget(pushed_.back());
  // The newest chunk stays even if it alone exceeds the limit: its readers need it now.
  while (kept_ > limit_ && ages_.size() > 1) forget(ages_.back());
}

void ChunkCache::forget(ChunkKey key) {
  const auto found = slots_.find(key);
  const Slot& slot = *found->second;
  const uint64_t bytes = (*slot.result)->capacity();
  kept_ -= bytes;
  if (slot.pushed) kept_pushed_ -= bytes;
  (slot.pushed ? pushed_ : ages_).erase(slot.age);
  slots_.erase(found);
}

}  // namespace codecfs::fs
