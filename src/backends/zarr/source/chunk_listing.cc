#include "backends/zarr/source/chunk_listing.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <new>
#include <set>
#include <span>
#include <tuple>

#include "base/interruption.h"
#include "base/log.h"
#include "base/mutex.h"

namespace codecfs::zarr {
namespace {

using EntryType = Store::EntryType;

/// Logs once why an entry with the name of a chunk is not a chunk.
void warn_not_a_chunk(const Store& store, const std::string& directory, const std::string& key) {
  static constexpr size_t kMaxReported = 4096;
  static Mutex mutex;
  static std::set<std::tuple<dev_t, ino_t, std::string>> reported CODECFS_GUARDED_BY(mutex);
  const auto holder = store.stat(directory);
  if (!holder || !*holder) return;
  const LockGuard lock(mutex);
  if (reported.size() < kMaxReported && reported.emplace((*holder)->st_dev, (*holder)->st_ino, key).second)
    log::warning("{}: has the name of a chunk but is not a regular file, so it is treated as absent", key);
}

/// Whether what is at the key of a chunk is a regular file or a link to one, as in locate().
bool is_chunk(const Store& store, const std::string& key, EntryType type) {
  if (type == EntryType::file) return true;
  if (type == EntryType::unknown) {
    const auto status = store.stat(key);
    // Inaccessible files, and links to files that are not there, are listed: reading them reports the error.
    if (!status || !*status) return !status || store.passes_link(key);
    if (S_ISREG((*status)->st_mode)) return true;
  }
  warn_not_a_chunk(store, holder_of(key), key);
  return false;
}

/// With separator '/', chunks are in nested directories, one level per dimension.
Result<> walk(const Store& store, const std::string& directory, std::span<const uint64_t> cells, uint64_t base,
              std::vector<uint64_t>& numbers) {
  return store.for_each(directory, [&](const char* name, EntryType type) -> Result<> {
    const size_t length = std::strlen(name);
    uint64_t coordinate = 0;
    const auto [end, code] = std::from_chars(name, name + length, coordinate);
    if (code != std::errc() || end != name + length || coordinate >= cells[0] || name[0] == '-') return {};
    if (name[0] == '0' && length > 1) return {};
    const uint64_t number = base * cells[0] + coordinate;
    if (cells.size() == 1) {
      if (is_chunk(store, join_key(directory, name), type)) numbers.push_back(number);
      return {};
    }
    if (type == EntryType::file || type == EntryType::special) return {};
    Result<> below = walk(store, join_key(directory, name), cells.subspan(1), number, numbers);
    // Ignore a file or a dangling link in place of a directory.
    if (!below && (below.error().code == ENOTDIR || below.error().code == ENOENT)) return {};
    return below;
  });
}

/// The chunks of `grid` that are not in the first `kept` cells of each dimension: disjoint boxes, one for each
/// dimension that is longer.
class Outside {
 public:
  Outside(const ChunkGrid& grid, std::span<const uint64_t> kept) : grid_(grid), kept_(kept) {}

  [[nodiscard]] uint64_t count() const {
    uint64_t inside = 1;
    for (size_t axis = 0; axis < grid_.rank(); ++axis) inside *= std::min(grid_.cells()[axis], kept_[axis]);
    return grid_.count() - inside;
  }

  /// Calls visit(number) for each, until it fails.
  Result<> visit(const std::function<Result<>(uint64_t number)>& visit) const {
    for (size_t longer = 0; longer < grid_.rank(); ++longer) {
      // In the dimensions before this one, only what is kept: the boxes of those have the rest.
      std::vector<uint64_t> first(grid_.rank());
      std::vector<uint64_t> end(grid_.cells().begin(), grid_.cells().end());
      for (size_t axis = 0; axis < longer; ++axis) end[axis] = std::min(end[axis], kept_[axis]);
      first[longer] = kept_[longer];
      if (!std::ranges::equal(first, end, std::less())) continue;
      std::vector<uint64_t> at = first;
      for (size_t axis = grid_.rank(); axis > 0;) {
        CODECFS_TRY(visit(grid_.number_of(at)));
        for (axis = grid_.rank(); axis > 0 && ++at[axis - 1] == end[axis - 1]; --axis) at[axis - 1] = first[axis - 1];
      }
    }
    return {};
  }

 private:
  const ChunkGrid& grid_;
  std::span<const uint64_t> kept_;
};

/// Whether there is a chunk now.
Result<bool> is_stored_now(const Store& store, SharedStore* shared, const std::string& key) {
  if (shared == nullptr) return is_chunk(store, key, EntryType::unknown);
  CODECFS_ASSIGN(const auto file, shared->open_now(key));
  return file != nullptr;
}

}  // namespace

Result<std::vector<uint64_t>> list_chunks(const Store& store, const std::string& array, const ChunkGrid& grid,
                                          const ChunkKeys& keys) {
  try {
    std::vector<uint64_t> numbers;
    if (keys.separator == '/' && grid.rank() > 0) {
      const std::string directory = keys.has_prefix ? join_key(array, "c") : array;
      Result<> walked = walk(store, directory, grid.cells(), 0, numbers);
      const bool is_absent = !walked && (walked.error().code == ENOENT || walked.error().code == ENOTDIR);
      if (!walked && !(keys.has_prefix && is_absent)) return std::unexpected(walked.error());
    } else {
      CODECFS_TRY(store.for_each(array, [&](const char* name, EntryType type) -> Result<> {
        const auto number = keys.number_of(grid, name);
        if (number && is_chunk(store, join_key(array, name), type)) numbers.push_back(*number);
        return {};
      }));
    }
    std::ranges::sort(numbers);
    return numbers;
  } catch (const std::bad_alloc&) {
    return fail(ENOMEM, "{}: no memory to list its chunks", array);
  }
}

Result<std::vector<uint64_t>> list_chunks_outside(const Store& store, SharedStore* shared, const std::string& array,
                                                  const ChunkGrid& grid, std::span<const uint64_t> kept,
                                                  const ChunkKeys& keys) try {
  constexpr uint64_t kLookedUp = 4096;      // files; as fast as listing as many
  constexpr uint64_t kLookedUpShared = 16;  // requests, one after the other
  std::vector<uint64_t> numbers;
  const Outside outside(grid, kept);
  const uint64_t count = outside.count();
  if (count == 0) return numbers;
  if (count <= (shared != nullptr ? kLookedUpShared : kLookedUp)) {
    if (shared != nullptr) shared->forget_lists();
    CODECFS_TRY(outside.visit([&](uint64_t number) -> Result<> {
      CODECFS_ASSIGN(const bool is_stored, is_stored_now(store, shared, join_key(array, keys.name_of(grid, number))));
      if (is_stored) numbers.push_back(number);
      return {};
    }));
    std::ranges::sort(numbers);
    return numbers;
  }
  if (shared != nullptr) shared->list_all_of(array);
  CODECFS_ASSIGN(numbers, list_chunks(store, array, grid, keys));
  std::vector<uint64_t> place(grid.rank());
  std::erase_if(numbers, [&](uint64_t number) {
    grid.coordinates_of(number, place);
    return std::ranges::equal(place, kept, std::less());
  });
  return numbers;
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to list its chunks", array);
}

Result<std::vector<uint64_t>> ChunkListings::next(const Store& store, const std::string& array, bool is_flat,
                                                  const Scan& scan, uint64_t from, size_t limit) {
  const Interruption::Guard lock(mutex_);  // a scan may wait for requests
  if (!lock.owns_lock()) return Interruption::error();
  auto found = std::ranges::find(listings_, array, &Listing::array);
  if (found == listings_.end() || from == 0) {
    CODECFS_ASSIGN(const auto status, store.stat(array));
    if (!status) return fail(ENOENT, "{}: no longer exists", array);
    const struct timespec changed = status->st_mtim;
    // The mtime of the directory does not change with files in other directories, or with what is in a file.
    const bool is_current = found != listings_.end() && is_flat && found->changed.tv_sec == changed.tv_sec &&
                            found->changed.tv_nsec == changed.tv_nsec;
    if (!is_current) {
      if (found != listings_.end()) listings_.erase(found);
      std::erase_if(listings_, [](const Listing& listing) { return listing.was_finished; });
      CODECFS_ASSIGN(auto numbers, scan());
      listings_.push_front({.array = array, .changed = changed, .numbers = std::move(numbers), .used = {}});
      if (listings_.size() > kKept) listings_.pop_back();
      found = listings_.begin();
    }
  }
  listings_.splice(listings_.begin(), listings_, found);
  const auto first = std::ranges::lower_bound(found->numbers, from);
  const auto last =
      first + static_cast<ptrdiff_t>(std::min<size_t>(limit, static_cast<size_t>(found->numbers.end() - first)));
  std::vector<uint64_t> batch(first, last);
  if (last == found->numbers.end()) found->was_finished = true;
  found->used = std::chrono::steady_clock::now();
  return batch;
}

void ChunkListings::refresh(const std::string& array, uint64_t number, const std::function<Result<bool>()>& is_stored) {
  const LockGuard lock(mutex_);
  const auto found = std::ranges::find(listings_, array, &Listing::array);
  if (found == listings_.end()) return;
  const Result<bool> stored = is_stored();
  try {
    std::vector<uint64_t>& numbers = found->numbers;
    const auto place = std::ranges::lower_bound(numbers, number);
    const bool is_listed = place != numbers.end() && *place == number;
    if (!stored) {
      listings_.erase(found);
    } else if (*stored && !is_listed) {
      numbers.insert(place, number);
    } else if (!*stored && is_listed) {
      numbers.erase(place);
    }
  } catch (const std::bad_alloc&) {
    listings_.erase(found);
  }
}

void ChunkListings::forget(const std::string& key) {
  const LockGuard lock(mutex_);
  std::erase_if(listings_, [&](const Listing& listing) { return is_at_or_below(listing.array, key); });
}

void ChunkListings::drop_unused(std::chrono::seconds unused_for) {
  const auto now = std::chrono::steady_clock::now();
  const LockGuard lock(mutex_);
  std::erase_if(listings_, [&](const Listing& listing) { return now - listing.used >= unused_for; });
}

size_t ChunkListings::kept_chunks() {
  const LockGuard lock(mutex_);
  size_t kept = 0;
  for (const Listing& listing : listings_) kept += listing.numbers.capacity();
  return kept;
}

}  // namespace codecfs::zarr
