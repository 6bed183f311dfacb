#pragma once
// The chunks that libhdf5 decodes and encodes by itself when a dataset gets another shape: those at an edge that moves
// inwards, which it fills beyond the edge, and where partial chunks are stored without filters, those at an edge that
// moves outwards.
//
// Where the encoded size stays the same libhdf5 (1.10 to 1.14) leaves the former filter mask in its index, whichever
// filters it has applied: such a chunk reads as garbage, or not at all. So what is in these chunks is noted before, and
// afterwards each is decoded and its mask corrected.
//
//   EdgeChunks edges(dataset.facts().grid, wanted, raw_partial);
//   edges.note(dataset); H5Dset_extent(...); edges.repair(dataset as opened anew);

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
  /// `raw_partial`: chunks over the edge are stored without filters.
  EdgeChunks(ChunkGrid before, ChunkGrid after, bool raw_partial);

  /// Whether libhdf5 encodes the chunk at these coordinates anew.
  [[nodiscard]] bool contains(std::span<const uint64_t> at) const;
  /// Decodes those that are stored. Under a LibraryRead. EIO: one is damaged; EOPNOTSUPP: one has a filter mask, and
  /// only libhdf5 has its filters.
  Result<> note(const Dataset& dataset);
  /// After the change, under the same LibraryRead: decodes them again, and stores those anew whose mask is wrong. EIO.
  Result<> repair(Dataset& dataset) const;

 private:
  struct Chunk {
    std::vector<uint64_t> at;
    uint64_t checksum = 0;  // of the elements that are in both shapes
    uint64_t stored_bytes = 0;
    std::optional<uint32_t> filter_mask;  // not of a partial chunk without filters: its mask in the index means nothing
  };
  struct Content {
    uint64_t checksum = 0;
    bool is_filled = true;  // everything else is fill
  };
  [[nodiscard]] bool is_edge(size_t dimension, uint64_t at) const;
  Result<> for_each(const std::function<Result<>(std::span<const uint64_t>)>& visit) const;
  [[nodiscard]] Content content_of(std::span<const uint64_t> at, Bytes chunk, const Dataset::FileForm& form) const;
  Result<> note(const Dataset& dataset, const Dataset::FileForm& form, std::span<const uint64_t> at);
  Result<> repair(Dataset& dataset, const Dataset::FileForm& form, const Chunk& chunk) const;

  ChunkGrid before_;
  ChunkGrid after_;
  bool raw_partial_;
  std::vector<Chunk> chunks_;
};

}  // namespace codecfs::hdf5
