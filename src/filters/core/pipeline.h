#pragma once
// A filter pipeline with parsed parameters, which encodes and decodes chunks. Immutable after make() and thread-safe.

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

/// True for filters that only libhdf5 implements (n-bit, scale-offset): their chunks must be read with H5Dread.
bool only_in_libhdf5(uint32_t id);

/// The most bytes that a plugin may make of so many (base64, error correction): 128 times and 64 MiB, at most twice
/// -o max_chunk=, and 2047 MiB, as codecs count bytes in an int. A damaged chunk may make a decoder need so much.
uint64_t max_of_plugin(uint64_t decoded);
/// Whether a filter of a chain is a plugin's, or missing: then max_of_plugin() is the limit of a stored chunk.
bool has_plugin(std::span<const FilterStage> chain);

/// A chunk as it is stored.
struct EncodedChunk {
  Buffer bytes;
  uint32_t filter_mask = 0;  // bit i set: filter i was skipped
};

class Pipeline {
 public:
  /// `chain`: the filters in the order of encoding. EIO with a reason that names the filter (id or codec id) if one is
  /// unknown or only_in_libhdf5(); EINVAL if parameters are invalid or there are more than 32 filters.
  static Result<Pipeline> make(std::span<const FilterStage> chain, const ChunkShape& chunk);

  /// Decodes with the filters in reverse order. Bit i of `filter_mask` set: filter i was skipped. Memory stays near the
  /// chunk's size, or within max_of_plugin(): EIO if a stage's output exceeds what its encoder can have received, or
  /// if the final size is not ChunkShape::bytes.
  Result<Buffer> decode(Buffer stored, uint32_t filter_mask = 0) const;
  /// As decode(), for a chunk at the edge of an array, as HDF5 reads it: the result may be shorter than a chunk, but
  /// not than `least` bytes.
  Result<Buffer> decode(Buffer stored, uint32_t filter_mask, uint64_t least) const;

  /// Encodes a chunk of ChunkShape::bytes bytes with all filters in order. As in HDF5, an optional filter is skipped if
  /// its encoder does not take the data (EINVAL, ENOTSUP), and never because of the size that it returns; Zarr has no
  /// optional filters. EINVAL and ENOTSUP with a reason that names the filter, EIO (a plugin crashed or hung), ENOMEM.
  Result<EncodedChunk> encode(Bytes chunk) const;

  [[nodiscard]] bool empty() const { return stages_.empty(); }
  /// As has_plugin(chain).
  [[nodiscard]] bool has_plugin() const { return has_plugin_; }

 private:
  struct Stage;
  Result<Buffer> decode_within(Buffer stored, uint32_t filter_mask, const SizeBound& chunk) const;
  std::vector<std::shared_ptr<const Stage>> stages_;
  ChunkShape chunk_;
  bool has_plugin_ = false;
};

}  // namespace codecfs::filters
