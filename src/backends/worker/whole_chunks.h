#pragma once
// Which chunks at the edge of an array are stored whole, so that each is decoded once to find out. Thread-safe.

#include <cstdint>
#include <memory>
#include <optional>

#include "backends/api/object.h"
#include "backends/worker/chunk_index.h"
#include "base/lru_map.h"

namespace codecfs::worker {

class WholeChunks {
 public:
  /// None if it is not known of the bytes at this place.
  std::optional<bool> find(ObjectId variable, uint64_t number, const ChunkIndex::Found& found) {
    const auto known = known_.get({variable, number});
    if (!known || known->layout != found.layout || known->generation != found.generation ||
        known->offset != found.place.offset || known->size != found.place.size)
      return std::nullopt;
    return known->is_whole;
  }
  void put(ObjectId variable, uint64_t number, const ChunkIndex::Found& found, bool is_whole) {
    known_.put({variable, number}, std::make_shared<const Known>(Known{found.layout, found.generation,
                                                                       found.place.offset, found.place.size, is_whole}));
  }

 private:
  struct Key {
    ObjectId variable = 0;
    uint64_t number = 0;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const {
      constexpr uint64_t kSpread = 0x9E3779B97F4A7C15;
      return std::hash<uint64_t>{}(key.variable * kSpread ^ key.number);
    }
  };
  struct Known {
    uint64_t layout = 0;
    uint64_t generation = 0;
    uint64_t offset = 0;
    uint64_t size = 0;
    bool is_whole = false;
  };
  static constexpr size_t kMax = 16384;

  LruMap<Key, Known, KeyHash> known_{kMax};
};

}  // namespace codecfs::worker
