#include "fs/chunks/chunk_cache.h"

#include <algorithm>
#include <utility>

#include "base/exceptions.h"
#include "base/interruption.h"

namespace codecfs::fs {
namespace {

// Pushed chunks that are kept. While a READ is on its way, no more are decoded ahead of its reader on two cores.
constexpr size_t kMaxPushed = 9;
constexpr uint64_t kShareOfPushed = 4;  // they take at most this fraction of the limit

}  // namespace

/// A chunk that is being decoded. If its lifetime ends before end(), the threads that wait for the chunk get ENOMEM.
class ChunkCache::Filling {
 public:
  Filling(ChunkCache& cache, ChunkKey key) CODECFS_REQUIRES(cache.mutex_)
      : cache_(cache), key_(key), slot_(cache.begin_filling(key)) {}
  /// The mutex must be held. Not analysed, as the analysis does not see that it is that of the constructor.
  ~Filling() CODECFS_NO_THREAD_SAFETY_ANALYSIS {
    std::list<ChunkKey> none;
    if (!slot_->ready) cache_.end_filling(key_, *slot_, fail(ENOMEM, "out of memory"), none);
  }
  Filling(const Filling&) = delete;
  Filling& operator=(const Filling&) = delete;

  Slot* operator->() const { return slot_.get(); }
  /// See end_filling(). Not analysed, as the destructor.
  void end(Result<ChunkPtr> result, std::list<ChunkKey>& age) CODECFS_NO_THREAD_SAFETY_ANALYSIS {
    cache_.end_filling(key_, *slot_, std::move(result), age);
  }
  [[nodiscard]] ChunkKey key() const { return key_; }

 private:
  ChunkCache& cache_;
  const ChunkKey key_;
  const SlotPtr slot_;
};

ChunkCache::SlotPtr ChunkCache::begin_filling(ChunkKey key) {
  auto slot = std::make_shared<Slot>();
  slots_.emplace(key, slot);
  return slot;
}

void ChunkCache::end_filling(ChunkKey key, Slot& slot, Result<ChunkPtr> result, std::list<ChunkKey>& age) {
  slot.result = std::move(result);
  const bool is_kept = slot.result && (!slot.passing || slot.wanted);
  if (!slot.dropped && is_kept) {
    kept_ += (*slot.result)->capacity();
    slot.age = age.begin();
    ages_.splice(ages_.begin(), age);
    make_room();
  } else if (!slot.dropped) {
    slots_.erase(key);
  }
  slot.ready = true;
  stats_.cache_bytes = kept_;
  changed_.notify_all();
}

Result<ChunkPtr> ChunkCache::get(ChunkKey key, uint64_t estimate, const std::function<Result<Buffer>()>& decode) {
  UniqueLock lock(mutex_);
  for (auto found = slots_.find(key); found != slots_.end(); found = slots_.find(key)) {
    const SlotPtr slot = found->second;
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

  Filling filling(*this, key);
  filling->wanted = true;
  const bool has_room = Interruption::wait(
      changed_, lock, [&]() CODECFS_REQUIRES(mutex_) { return in_flight_ == 0 || in_flight_ + estimate <= limit_; });
  if (has_room) {
    decode_into(filling, estimate, decode);
  } else {
    std::list<ChunkKey> none;
    filling.end(Interruption::error(), none);
  }
  return filling->result;
}

ChunkPtr ChunkCache::fetch(ChunkKey key, uint64_t estimate, const std::function<Result<Buffer>()>& decode) {
  UniqueLock lock(mutex_);
  if (slots_.contains(key) || in_flight_ + estimate > limit_) return nullptr;
  if (std::ranges::find(done_, key) != done_.end()) return nullptr;
  Filling filling(*this, key);
  ++stats_.decodes_ahead;
  decode_into(filling, estimate, decode);
  return filling->result && !filling->wanted && !filling->dropped ? *filling->result : nullptr;
}

Result<ChunkPtr> ChunkCache::get_uncached(ChunkKey key, uint64_t estimate,
                                          const std::function<Result<Buffer>()>& decode) {
  UniqueLock lock(mutex_);
  if (const auto found = slots_.find(key); found != slots_.end()) {
    const SlotPtr slot = found->second;
    ++(slot->ready ? stats_.cache_hits : stats_.decodes_shared);
    changed_.wait(lock, [&] { return slot->ready; });
    return slot->result;
  }
  Filling filling(*this, key);
  filling->passing = true;
  changed_.wait(lock, [&]() CODECFS_REQUIRES(mutex_) { return in_flight_ == 0 || in_flight_ + estimate <= limit_; });
  decode_into(filling, estimate, decode);
  return filling->result;
}

bool ChunkCache::is_wanted(ChunkKey key) {
  const LockGuard lock(mutex_);
  const auto found = slots_.find(key);
  return found != slots_.end() && found->second->wanted;
}

void ChunkCache::decode_into(Filling& filling, uint64_t estimate, const std::function<Result<Buffer>()>& decode) {
  in_flight_ += estimate;
  const uint64_t now = ++stats_.decodes_now;
  if (now > stats_.decodes_parallel) stats_.decodes_parallel = now;
  std::list<ChunkKey> age;
  // Nothing throws until the mutex is locked again.
  mutex_.unlock();
  Result<ChunkPtr> decoded = without_exceptions([&]() -> Result<ChunkPtr> {
    age.push_back(filling.key());
    CODECFS_ASSIGN(Buffer bytes, decode());
    return std::make_shared<const Buffer>(std::move(bytes));
  });
  mutex_.lock();
  in_flight_ -= estimate;
  --stats_.decodes_now;
  if (decoded) {
    ++stats_.chunks_decoded;
    stats_.bytes_decoded += (*decoded)->size();
  }
  filling.end(std::move(decoded), age);
}

void ChunkCache::drop(Slots::iterator slot) {
  if (slot->second->ready) {
    forget(slot->first);
    stats_.cache_bytes = kept_;
  } else {
    slot->second->dropped = true;
    slots_.erase(slot);
  }
}

void ChunkCache::drop(ChunkKey key) {
  const LockGuard lock(mutex_);
  if (const auto found = slots_.find(key); found != slots_.end()) drop(found);
}

void ChunkCache::drop(ChunkKey first, uint64_t count) {
  if (count == 1) return drop(first);
  const LockGuard lock(mutex_);
  for (auto at = slots_.begin(); at != slots_.end();) {
    const auto slot = at++;
    if (slot->first >= first && slot->first - first < count) drop(slot);
  }
}

bool ChunkCache::served(ChunkKey key, uint64_t bytes) {
  const LockGuard lock(mutex_);
  const auto found = slots_.find(key);
  if (found == slots_.end() || !found->second->ready) return false;
  Slot& slot = *found->second;
  slot.served += bytes;
  const bool has_all = slot.served >= (*slot.result)->size();
  if (has_all) {
    note_done(key);
    forget(key);
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
