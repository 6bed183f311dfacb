#pragma once
// Where chunks are, as the daemon knows it: ranges of places per variable. Thread-safe.
//
// A random access costs one call; from the second access to a range on, the rest of the range is fetched at once, and
// so is a range that follows a fetched one. An entry is valid as long as the variable's counter of changes
// (SharedState::generations) is what it was at the lookup.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "backends/api/object.h"
#include "backends/hdf5/source/chunk_layout.h"
#include "backends/hdf5/source/shared_state.h"
#include "base/lru_map.h"
#include "base/result.h"

namespace codecfs::worker {

/// The ranges of all indexes of this process, bounded in memory: least recently used first out. An index leaves its
/// ranges behind.
class ChunkRanges {
 public:
  /// `bytes`: the memory that they may take.
  explicit ChunkRanges(uint64_t bytes) : ranges_(SIZE_MAX, bytes) {}

 private:
  friend class ChunkIndex;
  struct Key {
    uint64_t index = 0;
    ObjectId variable = 0;
    uint64_t block = 0;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const {
      constexpr uint64_t kSpread = 0x9E3779B97F4A7C15;
      return std::hash<uint64_t>{}((key.index * kSpread ^ key.variable) * kSpread ^ key.block);
    }
  };
  struct Range {
    hdf5::StoredPlaces found;  // its places begin at `first`
    uint64_t first = 0;
    uint64_t edits = 0;
    unsigned lookups = 0;
  };

  LruMap<Key, Range, KeyHash> ranges_;
  std::atomic<uint64_t> indexes_ = 0;
};

class ChunkIndex {
 public:
  using Fetch = std::function<Result<hdf5::StoredPlaces>(ObjectId variable, uint64_t first, uint64_t count)>;

  ChunkIndex(const hdf5::SharedState& shared, Fetch fetch, std::shared_ptr<ChunkRanges> ranges)
      : shared_(shared), fetch_(std::move(fetch)), ranges_(std::move(ranges)), number_(++ranges_->indexes_) {}

  struct Found {
    hdf5::StoredPlace place;
    uint64_t layout = 0;
    uint64_t slot = 0;
    uint64_t generation = 0;
  };
  /// ENOENT if the variable has no such chunk, and the other errors of `fetch`.
  Result<Found> find(ObjectId variable, uint64_t number);
  /// Whether the places and the bytes there are still valid, after they were read.
  [[nodiscard]] bool is_current(const Found& found) const {
    return shared_.generations[found.slot].load() == found.generation;
  }
  /// Must be called before and after each change of the tree or of a pipeline.
  void invalidate() { ++edits_; }

 private:
  static constexpr uint64_t kBlock = 256;  // chunks
  using Range = ChunkRanges::Range;

  [[nodiscard]] bool is_current(const hdf5::StoredPlaces& found) const {
    return shared_.generations[found.slot].load() == found.generation;
  }
  [[nodiscard]] bool follows_whole_range(const ChunkRanges::Key& key, uint64_t edits) const;

  const hdf5::SharedState& shared_;
  const Fetch fetch_;
  const std::shared_ptr<ChunkRanges> ranges_;
  const uint64_t number_;  // of this index in `ranges_`
  std::atomic<uint64_t> edits_ = 0;
};

}  // namespace codecfs::worker
