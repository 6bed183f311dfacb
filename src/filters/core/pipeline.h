#pragma once
// The way of a chunk through its filters: a chain made ready for use. Immutable after make(), used from many threads.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "filters/core/filter.h"
#include "model/variable.h"

namespace codecfs::filters {

/// True for filters that no code but libhdf5's own can undo (n-bit, scale-offset): such chunks take the way through
/// H5Dread.
bool only_in_libhdf5(uint32_t id);

/// A chunk as it is stored.
struct EncodedChunk {
  Buffer bytes;
  uint32_t filter_mask = 0;  // bit i set: filter i was not applied
};

class Pipeline {
 public:
  /// `chain` in the order of encoding. Fails with EIO and a reason that names the filter (id or codec id) where one is
  /// not known here (or only_in_libhdf5), with EINVAL where parameters make no sense or the chain is longer than 32.
  static Result<Pipeline> make(std::span<const FilterStage> chain, const ChunkShape& chunk);

  /// Undoes the filters, last first. Bit i of `filter_mask` set: filter i was not applied. Never allocates much beyond
  /// the chunk's size: a stage that gives more than its input can have been is EIO, as is a final size other than
  /// ChunkShape::bytes.
  Result<Buffer> decode(Buffer stored, uint32_t filter_mask = 0) const;

  /// Applies the filters, first to last, to a chunk of ChunkShape::bytes bytes. A filter that is optional is left out
  /// where it fails, or where it compresses and the chunk did not become smaller, as HDF5 does; Zarr has no such
  /// filters. EINVAL and ENOTSUP with a reason that names the filter, ENOMEM.
  Result<EncodedChunk> encode(Bytes chunk) const;

  [[nodiscard]] bool empty() const { return stages_.empty(); }

 private:
  struct Stage;
  std::vector<std::shared_ptr<const Stage>> stages_;
  ChunkShape chunk_;
};

}  // namespace codecfs::filters
