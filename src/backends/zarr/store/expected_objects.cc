#include "backends/zarr/store/expected_objects.h"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

namespace codecfs::zarr {
namespace {

constexpr size_t kExpectedThreads = 64;  // the client lets so many requests run as the server can answer
constexpr uint64_t kExpectedBytes = uint64_t{128} << 20;  // of what is requested and not read yet, of all stores
constexpr std::chrono::seconds kLeftBehind{10};           // a reader that has not come by then has stopped
constexpr size_t kMaxEntries = 4096;
constexpr std::chrono::seconds kAbsentFor{5};  // as lists are used
constexpr std::chrono::seconds kOutdated{60};  // nothing older is used

// A reader and the threads that read ahead of it ask for the same objects, in this order and a moment later.
constexpr std::chrono::seconds kTakenFor{2};
constexpr size_t kMaxTakenKeys = 512;

}  // namespace

ExpectedObjects::ExpectedObjects(Get get, remote::RequestStatistics& statistics)
    : get_(std::move(get)), statistics_(statistics), threads_(kExpectedThreads) {}

ExpectedObjects::~ExpectedObjects() {
  is_ending_ = true;
  threads_.wait();
  const LockGuard lock(mutex_);
  statistics_.expected_bytes -= bytes_;
}

void ExpectedObjects::set_bytes(Entry& entry, uint64_t bytes) {
  bytes_ += bytes - entry.bytes;
  statistics_.expected_bytes += bytes - entry.bytes;
  entry.bytes = bytes;
}

ExpectedObjects::Entries::iterator ExpectedObjects::drop(Entries::iterator entry) {
  set_bytes(*entry->second, 0);
  return entries_.erase(entry);
}

bool ExpectedObjects::is_outdated(const Entry& entry) {
  if (!entry.content) return false;
  const bool is_absent = *entry.content && **entry.content == nullptr;
  return Clock::now() - entry.made > (is_absent ? kAbsentFor : kOutdated);
}

/// By what readers have left. One request is always possible.
bool ExpectedObjects::make_room(uint64_t bytes) {
  const auto has_room = [&]() CODECFS_REQUIRES(mutex_) {
    const uint64_t all = statistics_.expected_bytes;
    return entries_.size() < kMaxEntries &&
           (all + bytes <= kExpectedBytes || (bytes_ == 0 && all <= 2 * kExpectedBytes));
  };
  if (has_room()) return true;
  const auto now = Clock::now();
  for (auto at = entries_.begin(); at != entries_.end();) {
    const Entry& entry = *at->second;
    const bool is_left = entry.content && entry.readers == 0 && now - entry.made > kLeftBehind;
    at = is_left || is_outdated(entry) ? drop(at) : std::next(at);
  }
  return has_room();
}

void ExpectedObjects::expect(std::span<const std::string> keys, uint64_t most_bytes) try {
  std::vector<std::pair<std::string, EntryPtr>> made;
  {
    const LockGuard lock(mutex_);
    const auto now = Clock::now();
    while (!taken_.empty() && now - taken_.front().when > kTakenFor) taken_.pop_front();
    for (const std::string& key : keys) {
      const bool was_taken = std::ranges::any_of(taken_, [&](const Taken& taken) { return taken.key == key; });
      if (was_taken) continue;
      if (const auto known = entries_.find(key); known != entries_.end()) {
        if (!is_outdated(*known->second)) continue;
        drop(known);
      }
      if (!make_room(most_bytes)) break;
      auto entry = std::make_shared<Entry>();
      entry->made = now;
      made.emplace_back(key, entry);
      entries_.emplace(key, entry);
      set_bytes(*entry, most_bytes);
    }
  }
  for (const auto& one : made) threads_.run([this, key = one.first, entry = one.second] { run(key, entry); });
} catch (const std::bad_alloc&) {
  // Then readers request them.
}

void ExpectedObjects::run(const std::string& key, const EntryPtr& entry) {
  const Interruption::Scope scope(&ends_);
  Result<Found> found = get_(key);
  const LockGuard lock(mutex_);
  // Under the lock: a write either comes first, or forgets the entry afterwards.
  if (!entry->is_void && found && !found->is_current()) entry->is_void = true;
  const auto at = entries_.find(key);
  const bool is_there = at != entries_.end() && at->second == entry;
  const uint64_t bytes = found && found->part ? found->part->bytes.capacity() : 0;
  // Larger than it should have been: without memory for it, its reader requests it.
  if (is_there && bytes > entry->bytes && entry->readers == 0 && !make_room(bytes - entry->bytes))
    entry->is_void = true;
  if (is_there && entry->is_void)
    drop(entries_.find(key));
  else if (is_there)
    set_bytes(*entry, bytes);
  if (found)
    entry->content = std::move(found->part);
  else
    entry->content = std::unexpected(std::move(found.error()));
  arrived_.notify_all();
}

void ExpectedObjects::note_taken(const std::string& key) {
  taken_.push_back({key, Clock::now()});
  if (taken_.size() > kMaxTakenKeys) taken_.pop_front();
}

Result<std::optional<ExpectedObjects::PartPtr>> ExpectedObjects::wait_for(const std::string& key, bool is_last) {
  UniqueLock lock(mutex_);
  if (is_last) note_taken(key);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return std::nullopt;
  const EntryPtr entry = found->second;
  if (is_outdated(*entry)) {
    drop(found);
    return std::nullopt;
  }
  ++entry->readers;
  const bool has_arrived =
      Interruption::wait(arrived_, lock, [&]() { return entry->content.has_value() || entry->is_void; });
  --entry->readers;
  if (!has_arrived) return Interruption::error();
  if (entry->is_void) return std::nullopt;
  // Errors are told once: later readers ask anew. That there is no such object is known for a while.
  const bool is_error = !*entry->content;
  const bool is_absent = !is_error && **entry->content == nullptr;
  if (is_error || (is_last && !is_absent))
    if (const auto at = entries_.find(key); at != entries_.end() && at->second == entry) drop(at);
  if (is_error) return std::unexpected(entry->content->error());
  return std::optional(**entry->content);
}

Result<std::optional<ExpectedObjects::PartPtr>> ExpectedObjects::look(const std::string& key) {
  return wait_for(key, false);
}

Result<std::optional<ExpectedObjects::PartPtr>> ExpectedObjects::take(const std::string& key) {
  return wait_for(key, true);
}

void ExpectedObjects::forget(const std::string& key) {
  const LockGuard lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  found->second->is_void = true;
  drop(found);
  arrived_.notify_all();
}

}  // namespace codecfs::zarr
