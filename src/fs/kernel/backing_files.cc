#include "fs/kernel/backing_files.h"

#include <algorithm>
#include <exception>

namespace codecfs::fs {
namespace {

constexpr uint64_t kPageBytes = 4096;                    // bytes; files take whole pages
constexpr uint64_t kLeastLimit = uint64_t{16} << 20;     // bytes; below this, pressure does not lower the limit
constexpr uint64_t kCheckInterval = uint64_t{16} << 20;  // bytes of new files between two looks at the memory
constexpr std::chrono::seconds kRecovery{30};            // without pressure, before the limit is doubled
constexpr size_t kMaxDamaged = 64;                       // chunks that are remembered

uint64_t memory_of(uint64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

}  // namespace

BackingFiles::BackingFiles(BackingDevice& device, uint64_t budget, std::function<uint64_t()> available, Stats& stats)
    : device_(device), budget_(budget), available_(std::move(available)), stats_(stats), limit_(budget) {}

BackingPtr BackingFiles::find(ChunkKey key) {
  const LockGuard lock(mutex_);
  const auto found = files_.find(key);
  return found == files_.end() || found->second.id == 0 ? nullptr : use(key, found->second);
}

bool BackingFiles::is_coming(ChunkKey key) {
  const LockGuard lock(mutex_);
  const auto found = files_.find(key);
  return found != files_.end() && found->second.id == 0;
}

BackingPtr BackingFiles::get(ChunkKey key, uint64_t bytes, const Produce& produce) {
  UniqueLock lock(mutex_);
  bool may_make = true;
  while (true) {
    const auto found = files_.find(key);
    if (found == files_.end()) {
      // Either this thread has failed to make it, or the one that it waited for.
      if (!may_make || !make_locked(key, bytes, produce)) return nullptr;
    } else if (found->second.id != 0) {
      return use(key, found->second);
    } else {
      changed_.wait(lock);
    }
    may_make = false;
  }
}

bool BackingFiles::make(ChunkKey key, uint64_t bytes, const Produce& produce) {
  const LockGuard lock(mutex_);
  return files_.contains(key) || make_locked(key, bytes, produce);
}

bool BackingFiles::make_locked(ChunkKey key, uint64_t bytes, const Produce& produce) {
  if (stopped_ || std::ranges::find(damaged_, key) != damaged_.end()) return false;
  const uint64_t memory = memory_of(bytes);
  if (limit_ < budget_ && Clock::now() - changed_limit_ >= kRecovery) {
    limit_ = std::min(2 * limit_, budget_);
    changed_limit_ = Clock::now();
  }
  const std::vector<int32_t> evicted = evict(limit_ - std::min(limit_, memory));
  const bool has_room = held_ + memory <= limit_;
  if (has_room) {
    files_[key] = {.id = 0, .bytes = memory, .users = 0, .place = busy_.insert(busy_.end(), key)};
    held_ += memory;
    unchecked_ += memory;
  } else {
    ++stats_.passthrough_fallbacks;
  }
  const bool must_check = unchecked_ >= kCheckInterval;
  if (must_check) unchecked_ = 0;
  // Nothing throws until the mutex is locked again.
  mutex_.unlock();
  close_all(evicted);
  bool is_damaged = false;
  const Result<int32_t> id = has_room ? store(bytes, produce, must_check, is_damaged) : Result<int32_t>(0);
  mutex_.lock();
  if (!has_room) return false;
  const auto made = files_.find(key);
  if (id) {
    ++stats_.passthrough_chunks;
    made->second.id = *id;
    closed_.splice(closed_.begin(), busy_, made->second.place);
  } else {
    ++stats_.passthrough_fallbacks;
    held_ -= memory;
    busy_.erase(made->second.place);
    files_.erase(made);
  }
  stats_.passthrough_bytes = held_;
  changed_.notify_all();
  if (is_damaged) damaged_.push_back(key);
  if (damaged_.size() > kMaxDamaged) damaged_.pop_front();
  return id.has_value();
}

/// Decodes the chunk and stores it. `is_damaged`: set if it cannot be decoded, now or later.
Result<int32_t> BackingFiles::store(uint64_t bytes, const Produce& produce, bool checks_memory, bool& is_damaged) try {
  if (checks_memory) check_memory();
  Result<ChunkPtr> content = produce();
  if (!content) {
    is_damaged = content.error().code != ENOMEM && content.error().code != ENOENT;
    return pass_on(content);
  }
  // The kernel reads to the end of the backing file, but the attributes have the size that it was told.
  if ((*content)->size() != bytes) return fail(EIO, "the chunk has {} bytes, not {}", (*content)->size(), bytes);
  Result<int32_t> id = device_.store((*content)->bytes());
  if (id || id.error().code != ENOSPC) return id;
  // Mappings keep the memory of files that were removed. Others may go instead.
  std::vector<int32_t> evicted;
  {
    const LockGuard lock(mutex_);
    evicted = evict(held_ - std::min(held_, memory_of(bytes)));
  }
  if (evicted.empty()) return id;
  close_all(evicted);
  return device_.store((*content)->bytes());
} catch (const std::exception& exception) {
  return fail(ENOMEM, "{}", exception.what());
}

BackingPtr BackingFiles::use(ChunkKey key, File& file) {
  auto made = std::make_shared<const Use>(*this, key, file.id);
  if (file.users++ == 0) busy_.splice(busy_.end(), closed_, file.place);
  return made;
}

void BackingFiles::release(ChunkKey key) {
  std::vector<int32_t> evicted;
  {
    const LockGuard lock(mutex_);
    File& file = files_.find(key)->second;
    if (--file.users != 0) return;
    closed_.splice(closed_.begin(), busy_, file.place);
    evicted = evict(limit_);  // the limit may have been lowered meanwhile
    stats_.passthrough_bytes = held_;
  }
  close_all(evicted);
}

std::vector<int32_t> BackingFiles::evict(uint64_t most) {
  std::vector<int32_t> ids;
  while (held_ > most && !closed_.empty()) {
    const auto found = files_.find(closed_.back());
    ids.push_back(found->second.id);
    held_ -= found->second.bytes;
    closed_.pop_back();
    files_.erase(found);
  }
  return ids;
}

void BackingFiles::close_all(const std::vector<int32_t>& ids) {
  if (ids.empty()) return;
  {
    const LockGuard lock(mutex_);
    if (stopped_) return;
  }
  for (const int32_t id : ids) device_.close(id);
}

void BackingFiles::shrink(Clock::time_point now) {
  std::vector<int32_t> evicted;
  {
    const LockGuard lock(mutex_);
    // Half of what is held, not of what may be held: else the first steps could free nothing.
    limit_ = std::max(std::min(limit_, held_) / 2, std::min(kLeastLimit, budget_));
    changed_limit_ = now;
    evicted = evict(limit_);
    stats_.passthrough_bytes = held_;
  }
  close_all(evicted);
}

void BackingFiles::check_memory() {
  const uint64_t available = available_();
  if (available < budget_ / 2) {
    shrink();
  } else if (available < budget_) {
    const LockGuard lock(mutex_);
    limit_ = std::max(std::min(limit_, held_), std::min(kLeastLimit, budget_));
    changed_limit_ = Clock::now();
  }
}

void BackingFiles::stop() {
  const LockGuard lock(mutex_);
  stopped_ = true;
}

}  // namespace codecfs::fs
