#pragma once
// Decodes chunks of the source, by way of the cache of decoded chunks. Thread-safe.

#include "base/helpers.h"
#include "fs/chunks/chunk_cache.h"
#include "fs/chunks/write_back.h"
#include "fs/nodes/dataset.h"
#include "fs/nodes/nodes.h"
#include "fs/nodes/stats.h"

namespace codecfs::fs {

/// ESTALE if a place does not mean the same chunk any more, because the variable was removed, or has or is being given
/// another shape. What was read of a chunk is its content only if this succeeds after it.
Result<> check_place(const Nodes& nodes, Dataset& dataset, const ChunkPlace& chunk);

/// All functions return ESTALE if check_place() fails.
class ChunkDecoder {
 public:
  /// `helpers`: for large chunks. They may be constructed later.
  ChunkDecoder(Dataset& dataset, const Nodes& nodes, ChunkCache& cache, Stats& stats, Helpers& helpers,
               WriteBack::ChangedOutside changed_outside = {})
      : dataset_(dataset),
        nodes_(nodes),
        cache_(cache),
        stats_(stats),
        helpers_(helpers),
        changed_outside_(std::move(changed_outside)) {}

  /// The decoded chunk of the source. ENOENT if it is not stored.
  Result<ChunkPtr> stored(const ChunkPlace& chunk);
  /// A part of it, if the source can read that without the rest; else null. It is not cached.
  Result<ChunkPtr> part(const ChunkPlace& chunk, uint64_t offset, uint64_t size);
  /// As stored(), or a fill chunk if readers see one for it. ENOENT if it is not stored.
  Result<ChunkPtr> decoded(const ChunkPlace& chunk);
  /// The chunk as a writer needs it: fill if it is not stored.
  Result<ChunkPtr> base_of(const ChunkPlace& chunk);
  /// The decoded chunk of the source, bypassing the cache.
  Result<Buffer> decode(const ChunkPlace& chunk);
  /// An estimate of the memory that decoding a chunk takes, bytes.
  static uint64_t decoding_bytes(const Variable& variable);

 private:
  template <typename T>
  Result<T> checked(const ChunkPlace& chunk, Result<T> read);
  Result<ChunkPtr> cached(const ChunkPlace& chunk);
  Result<ChunkPtr> cached_or_fill(const ChunkPlace& chunk);

  Dataset& dataset_;
  const Nodes& nodes_;
  ChunkCache& cache_;
  Stats& stats_;
  Helpers& helpers_;
  const WriteBack::ChangedOutside changed_outside_;
};

}  // namespace codecfs::fs
