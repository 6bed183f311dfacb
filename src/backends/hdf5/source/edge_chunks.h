#pragma once
// The chunks that libhdf5 decodes and re-encodes when the shape of a dataset changes: those at an edge that moves
// inwards, because libhdf5 fills the part beyond the edge, and, if partial chunks are stored without filters, those at
// an edge that moves outwards.
//
// If the encoded size does not change, libhdf5 (1.10 to 1.14) keeps the old filter mask in its index, whichever filters
// it has applied: the chunk then decodes to garbage, or not at all. So note() records the content of these chunks, and
// repair() decodes each afterwards and corrects its mask.
//
// Of a chunk at the edge, a writer may have stored only the part inside the array. libhdf5 reads that into a buffer of
// this size, and fills it, or reads elements that become part of the array, beyond its end. So complete() stores such
// chunks whole before the change.
//
//   EdgeChunks edges(dataset.facts().grid, wanted, raw_partial);
//   edges.complete(dataset); edges.note(dataset); H5Dset_extent(...); edges.repair(dataset as reopened);

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "backends/hdf5/source/dataset.h"
#include "base/result.h"
#include "model/chunk_grid.h"

namespace codecfs::hdf5 {

class EdgeChunks {
 public:
  /// `raw_partial`: partial edge chunks are stored without filters.
  EdgeChunks(ChunkGrid before, ChunkGrid after, bool raw_partial);

  /// Whether libhdf5 re-encodes the chunk at these coordinates.
  [[nodiscard]] bool contains(std::span<const uint64_t> at) const;
  /// Under a LibraryRead. EOPNOTSUPP: a chunk without filters cannot be stored whole.
  Result<> complete(Dataset& dataset) const;
  /// Decodes the stored ones among them. Under a LibraryRead. EIO: one is damaged; EOPNOTSUPP: one has a filter mask,
  /// and only libhdf5 implements its filters.
  Result<> note(const Dataset& dataset);
  /// After the change, under the same LibraryRead: decodes them again and rewrites those whose mask is wrong. EIO.
  Result<> repair(Dataset& dataset) const;

 private:
  struct Chunk {
    std::vector<uint64_t> at;
    uint64_t checksum = 0;  // of the elements that both shapes contain
    uint64_t stored_bytes = 0;
    // none for a partial chunk without filters, whose mask in the index is undefined
    std::optional<uint32_t> filter_mask;
  };
  struct Content {
    uint64_t checksum = 0;
    bool is_filled = true;  // all other elements are fill
  };
  using Visit = std::function<Result<>(std::span<const uint64_t>)>;
  [[nodiscard]] bool is_edge(size_t dimension, uint64_t at) const;
  [[nodiscard]] bool is_moved(size_t dimension, uint64_t at) const;
  [[nodiscard]] uint64_t count_moved() const;
  Result<> for_each(bool (EdgeChunks::*is_visited)(size_t, uint64_t) const, const Visit& visit) const;
  [[nodiscard]] Content content_of(std::span<const uint64_t> at, Bytes chunk, const Dataset::FileForm& form) const;
  Result<> note(const Dataset& dataset, const Dataset::FileForm& form, std::span<const uint64_t> at);
  Result<> repair(Dataset& dataset, const Dataset::FileForm& form, const Chunk& chunk) const;

  ChunkGrid before_;
  ChunkGrid after_;
  bool raw_partial_;
  std::vector<Chunk> chunks_;
};

}  // namespace codecfs::hdf5
