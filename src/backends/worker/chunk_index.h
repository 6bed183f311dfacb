#pragma once
// Where chunks are, as the daemon knows it: ranges of places per variable, bounded in memory, least recently used first
// out. Thread-safe.
//
// A random access costs one call; from the second access to a range on, the rest of the range is fetched at once. An
// entry is valid as long as the variable's counter of changes (SharedState::generations) is what it was at the lookup.

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

class ChunkIndex {
 public:
  using Fetch = std::function<Result<hdf5::StoredPlaces>(ObjectId variable, uint64_t first, uint64_t count)>;

  /// `bytes`: the memory that entries may take.
  ChunkIndex(const hdf5::SharedState& shared, Fetch fetch, uint64_t bytes)
      : shared_(shared), fetch_(std::move(fetch)), blocks_(SIZE_MAX, bytes) {}

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
  struct Block {
    hdf5::StoredPlaces found;  // its places begin at `first`
    uint64_t first = 0;
    uint64_t edits = 0;
    unsigned lookups = 0;
  };
  struct KeyHash {
    size_t operator()(const std::pair<ObjectId, uint64_t>& key) const {
      return std::hash<uint64_t>{}(key.first * 0x9E3779B97F4A7C15 ^ key.second);
    }
  };

  const hdf5::SharedState& shared_;
  const Fetch fetch_;
  LruMap<std::pair<ObjectId, uint64_t>, Block, KeyHash> blocks_;
  std::atomic<uint64_t> edits_ = 0;
};

}  // namespace codecfs::worker
