#pragma once
// What a process needs to read and decode the chunks of a dataset without libhdf5.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "filters/core/pipeline.h"
#include "model/variable.h"

namespace codecfs::hdf5 {

/// Where a chunk is.
struct StoredPlace {
  enum class Kind : uint8_t {
    absent,     // not stored
    encoded,    // `size` bytes at `offset` of the file, to be decoded
    piece,      // `size` bytes at `offset` of the file, decoded; the rest of the chunk is fill
    elsewhere,  // only the process that runs libhdf5 can read it
  };
  uint64_t offset = 0;
  uint64_t size = 0;         // bytes as stored, as ChunkInfo::stored_size
  uint32_t filter_mask = 0;  // for decoding
  uint32_t shown_mask = 0;   // ChunkInfo::filter_mask
  Kind kind = Kind::absent;
  bool has_offset = false;  // ChunkInfo::offset
  bool is_exact = false;    // see Source::read_stored()
  bool must_check = false;  // then it is only exact if ChunkLayout::is_as_shown()
};

/// The places of consecutive chunks.
struct StoredPlaces {
  uint64_t layout = 0;      // the number of the ChunkLayout
  uint64_t slot = 0;        // of the counter in SharedState::generations,
  uint64_t generation = 0;  // and its value when they were looked up
  std::vector<StoredPlace> places;
};

/// An encoded chunk, and the number of the ChunkLayout that decodes it.
struct FetchedChunk {
  uint64_t layout = 0;
  filters::EncodedChunk encoded;
};

/// Decodes and encodes chunks; immutable and thread-safe.
class ChunkLayout {
 public:
  explicit ChunkLayout(VariablePtr facts);
  [[nodiscard]] const Variable& facts() const { return *facts_; }
  /// Decodes all bytes of a chunk that lies, as far as the array reaches, in the stored array. If less is stored,
  /// the rest is fill.
  Result<Buffer> decode(Buffer stored, uint32_t filter_mask, uint64_t number) const;
  /// Whether the bytes decode to a whole chunk, as it is shown. True also if they cannot be decoded.
  [[nodiscard]] bool is_as_shown(Bytes stored, uint32_t filter_mask, uint64_t number) const;
  /// Encodes a whole chunk. Only if there is a pipeline(). Errors of Pipeline::encode().
  Result<filters::EncodedChunk> encode(Bytes chunk) const { return pipeline_->encode(chunk); }
  /// Null, if chunks are not decoded by a pipeline or a filter is missing.
  [[nodiscard]] const filters::Pipeline* pipeline() const { return pipeline_ ? &*pipeline_ : nullptr; }
  [[nodiscard]] const std::optional<Error>& pipeline_error() const { return pipeline_error_; }

 private:
  VariablePtr facts_;
  std::optional<filters::Pipeline> pipeline_;
  std::optional<Error> pipeline_error_;  // why pipeline_ is empty
};

/// A number of encoded bytes that no filter exceeds for a chunk; a damaged index may contain any size. `pipeline`: null
/// if a filter is missing.
inline uint64_t most_encoded_bytes(uint64_t chunk_bytes, const filters::Pipeline* pipeline) {
  if (pipeline == nullptr || pipeline->has_plugin()) return filters::max_of_plugin(chunk_bytes);
  return 2 * chunk_bytes + (uint64_t{64} << 10);
}

/// The bytes of a chunk up to the end of its last element in the array: `count` elements in each dimension. Writers
/// (H5Dwrite_chunk) may store no more of it, because libhdf5 reads no more. In C order of the whole chunk: libhdf5 does
/// not know chunks with shorter rows.
uint64_t needed_bytes(const ChunkGrid& grid, std::span<const uint64_t> count, uint64_t element);
uint64_t needed_bytes(const ChunkGrid& grid, uint64_t number, uint64_t element);

/// Decodes with a pipeline, or, if a filter is missing (`error`), chunks that were stored without it. The result may be
/// shorter than a chunk, but has at least `needed` bytes.
Result<Buffer> decode_chunk(const Variable& facts, const std::optional<filters::Pipeline>& pipeline,
                            const std::optional<Error>& error, Buffer stored, uint32_t filter_mask, uint64_t needed);

/// Whether what a chunk was decoded to is shown as it is: not if it is shorter, or has bytes behind the end of strings.
bool is_as_shown(const Variable& facts, Bytes decoded);

/// Makes a chunk of which less is stored `bytes` long; the rest is fill.
Result<Buffer> pad_chunk(Buffer decoded, uint64_t bytes, Bytes fill);

}  // namespace codecfs::hdf5
