#pragma once
// Which chunks are stored as they are shown, where each must be decoded once to find out. Thread-safe.

#include <cstdint>
#include <memory>
#include <optional>

#include "backends/api/object.h"
#include "backends/worker/chunk_index.h"
#include "base/lru_map.h"

namespace codecfs::worker {

class CheckedChunks {
 public:
  /// None if it is not known of the bytes at this place.
  std::optional<bool> find(ObjectId variable, uint64_t number, const ChunkIndex::Found& found) {
    const auto known = known_.get({variable, number});
    if (!known || known->layout != found.layout || known->generation != found.generation ||
        known->offset != found.place.offset || known->size != found.place.size)
      return std::nullopt;
    return known->is_as_shown;
  }
  void put(ObjectId variable, uint64_t number, const ChunkIndex::Found& found, bool is_as_shown) {
    known_.put({variable, number},
               std::make_shared<const Known>(
                   Known{found.layout, found.generation, found.place.offset, found.place.size, is_as_shown}));
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
    bool is_as_shown = false;
  };
  static constexpr size_t kMax = 131072;  // a listing of more looks at each anew

  LruMap<Key, Known, KeyHash> known_{kMax};
};

}  // namespace codecfs::worker
