#pragma once
// The chunks of a mount: those that were decoded or converted, those that are changed, and those that readers will need
// soon. Each member is thread-safe.

#include <cstdint>
#include <functional>

#include "fs/chunks/chunk_cache.h"
#include "fs/chunks/chunk_decoder.h"
#include "fs/chunks/page_copies.h"
#include "fs/chunks/read_ahead.h"
#include "fs/chunks/write_back.h"
#include "fs/nodes/chunk_place.h"
#include "fs/nodes/dataset.h"
#include "fs/nodes/nodes.h"
#include "fs/nodes/stats.h"

namespace codecfs::fs {

struct Chunks {
  /// `cache_bytes`: of decoded chunks. `changed_outside`: another program was found to have changed a chunk.
  Chunks(Dataset& dataset, const Nodes& nodes, Stats& stats, uint64_t cache_bytes, const WriteBack::Options& options,
         const WriteBack::ChangedOutside& changed_outside);
  Chunks(const Chunks&) = delete;
  Chunks& operator=(const Chunks&) = delete;

  /// Drops what is decoded and converted of all chunks.
  void drop_cached() {
    cache.drop_forms(0, kZarr3Form);
    conversions.drop_forms(0, kZarr3Form);
  }
  /// Drops what is decoded and converted of a chunk that has changed.
  void drop_cached(ChunkKey key) {
    cache.drop(key);
    conversions.drop_forms(key);
  }

  ChunkCache cache;
  Stats conversion_stats;  // of the next
  ChunkCache conversions;  // chunks of the encoded views that are not as in the source, by their keys
  ChunkDecoder decoder;
  PageCopies page_copies;
  WriteBack write_back;  // its threads use the members above, and end before them
  ReadAhead read_ahead;  // last, as its threads use all members above
};

}  // namespace codecfs::fs
