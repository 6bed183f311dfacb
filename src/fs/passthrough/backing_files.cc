#include "fs/passthrough/backing_files.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/exceptions.h"

namespace codecfs::fs {
namespace {

constexpr uint64_t kPageBytes = 4096;  // bytes; files take whole pages
// Bytes; below this, pressure does not lower the limit. It is more than is made ahead of a reader with the usual
// cache: what is removed before its reader comes is requested from the store and decoded twice.
constexpr uint64_t kLeastLimit = uint64_t{64} << 20;
constexpr uint64_t kCheckInterval = uint64_t{16} << 20;  // bytes of new files between two looks at the memory
constexpr std::chrono::seconds kRecovery{30};            // without pressure, before the limit is doubled
constexpr size_t kMaxDamaged = 64;                       // chunks that are remembered
// A chunk that is cheap to make takes at most as much processor time as so many copies of it, and waits no longer for
// its source, or for a core, than so many.
constexpr int kCheap = 5;
constexpr int kFast = 40;
constexpr uint64_t kForgotten = 4;  // budgets of other chunks, after which the page cache has lost a chunk, too

uint64_t memory_of(uint64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

}  // namespace

BackingFiles::BackingFiles(BackingDevice& device, uint64_t budget, std::function<uint64_t()> available, Stats& stats,
                           Policy policy, Meters meters)
    : device_(device),
      budget_(budget),
      available_(std::move(available)),
      stats_(stats),
      policy_(policy),
      meters_(std::move(meters)),
      limit_(budget) {}

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

bool BackingFiles::has(ChunkKey key) {
  const LockGuard lock(mutex_);
  return files_.contains(key);
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
  seen_ += memory;
  growth_.seen(memory);
  std::list<ChunkKey> place{key};
  const auto coming = files_.emplace(key, File{.bytes = memory, .used = seen_, .place = place.begin()}).first;
  // Nothing throws until the file is there, or is not.
  std::vector<int32_t> evicted;
  const bool has_room = have_room(memory, evicted);
  if (has_room) {
    kinds_[busy].splice(kinds_[busy].begin(), place);
    held_ += memory;
    unchecked_ += memory;
  } else {
    files_.erase(coming);
    ++stats_.passthrough_fallbacks;
  }
  const uint64_t total = held_;
  const bool must_check = unchecked_ >= kCheckInterval;
  if (must_check) unchecked_ = 0;
  mutex_.unlock();
  close_all(evicted);
  Made made;
  if (has_room) made = store(bytes, produce, must_check);
  mutex_.lock();
  if (!has_room) return false;
  const auto found = files_.find(key);
  File& file = found->second;
  if (made.id) {
    ++stats_.passthrough_chunks;
    growth_.written(total, memory, made.writing);
    file.id = *made.id;
    const MemoryGrowth::Cost copy = growth_.copy_cost(bytes);
    file.is_cheap = made.making <= kCheap * copy && made.waited <= kFast * copy;
    move(file, unread);
  } else {
    ++stats_.passthrough_fallbacks;
    held_ -= memory;
    kinds_[busy].erase(file.place);
    files_.erase(found);
  }
  stats_.passthrough_bytes = held_;
  changed_.notify_all();
  if (made.is_damaged) damaged_.push_back(key);
  if (damaged_.size() > kMaxDamaged) damaged_.pop_front();
  return made.id.has_value();
}

bool BackingFiles::have_room(uint64_t memory, std::vector<int32_t>& evicted) {
  if (memory > limit_) return false;
  if (policy_ == Policy::always) {
    evicted = evict(limit_ - memory);
    return held_ + memory <= limit_;
  }
  while (true) {
    const uint64_t total = held_ + memory;
    if (total <= limit_ && growth_.permits(total)) return true;
    // Where memory is dear, other programs may get what a file leaves before the next one does.
    if (total <= limit_) return false;
    bool is_less = false;
    if (!kinds_[spare].empty())
      is_less = evict_last(spare, evicted);
    else if (has_unused(unread, limit_))
      is_less = evict_last(unread, evicted);
    else if (has_unused(precious, kForgotten * budget_))
      is_less = evict_last(precious, evicted);
    if (!is_less) return false;
  }
}

BackingFiles::Made BackingFiles::store(uint64_t bytes, const Produce& produce, bool checks_memory) noexcept try {
  if (checks_memory) check_memory();
  const std::chrono::nanoseconds begin = meters_.elapsed();
  const std::chrono::nanoseconds used = meters_.processor();
  Result<ChunkPtr> content = produce();
  Made made{.id = 0, .waited = meters_.elapsed() - begin, .making = meters_.processor() - used};
  if (!content) {
    made.is_damaged = content.error().code != ENOMEM && content.error().code != ENOENT;
    made.id = pass_on(content);
  } else if ((*content)->size() != bytes) {
    // The kernel reads to the end of the backing file, but the attributes have the size that it was told.
    made.id = fail(EIO, "the chunk has {} bytes, not {}", (*content)->size(), bytes);
  } else {
    made.id = write(*content, made.writing);
  }
  return made;
} catch (...) {
  return {.id = std::unexpected(error_of_exception())};
}

Result<int32_t> BackingFiles::write(const ChunkPtr& content, MemoryGrowth::Cost& cost) {
  const auto try_device = [&] {
    const std::chrono::nanoseconds begin = meters_.processor();
    Result<int32_t> id = device_.store(content->bytes());
    cost = meters_.processor() - begin;
    return id;
  };
  Result<int32_t> id = try_device();
  if (id || id.error().code != ENOSPC) return id;
  // Mappings keep the memory of files that were removed. Others may go instead.
  std::vector<int32_t> evicted;
  {
    const LockGuard lock(mutex_);
    evicted = evict(held_ - std::min(held_, memory_of(content->size())));
  }
  if (evicted.empty()) return id;
  close_all(evicted);
  return try_device();
}

BackingPtr BackingFiles::use(ChunkKey key, File& file) {
  auto made = std::make_shared<const Use>(*this, key, file.id);
  file.used = seen_;
  if (file.users++ == 0) move(file, busy);
  return made;
}

void BackingFiles::release(ChunkKey key) {
  std::vector<int32_t> evicted;
  {
    const LockGuard lock(mutex_);
    File& file = files_.find(key)->second;
    if (--file.users != 0) return;
    file.used = seen_;
    move(file, file.is_cheap && policy_ == Policy::if_better ? spare : precious);
    evicted = evict(limit_);  // the limit may have been lowered meanwhile
    stats_.passthrough_bytes = held_;
  }
  close_all(evicted);
}

void BackingFiles::move(File& file, Kind kind) {
  kinds_[kind].splice(kinds_[kind].begin(), kinds_[file.kind], file.place);
  file.kind = kind;
}

std::vector<int32_t> BackingFiles::evict(uint64_t most) noexcept {
  std::vector<int32_t> ids;
  for (const Kind kind : {spare, precious, unread})
    while (held_ > most && !kinds_[kind].empty() && evict_last(kind, ids)) {
    }
  if (!ids.empty()) growth_.given_back(held_);
  return ids;
}

bool BackingFiles::evict_last(Kind kind, std::vector<int32_t>& ids) noexcept {
  const auto found = files_.find(kinds_[kind].back());
  try {
    ids.push_back(found->second.id);
  } catch (const std::bad_alloc&) {
    return false;
  }
  held_ -= found->second.bytes;
  kinds_[kind].pop_back();
  files_.erase(found);
  return true;
}

bool BackingFiles::has_unused(Kind kind, uint64_t bytes) {
  return !kinds_[kind].empty() && seen_ - files_.find(kinds_[kind].back())->second.used > bytes;
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
