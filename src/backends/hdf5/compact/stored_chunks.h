#pragma once
// The encoded chunks of a dataset, located by their coordinates. All functions under a LibraryLock.

#include <hdf5.h>

#include <cstdint>
#include <vector>

#include "backends/hdf5/library/handle.h"
#include "base/buffer.h"
#include "base/result.h"
#include "model/chunk_grid.h"

namespace codecfs::hdf5 {

/// The stored chunks of a dataset.
struct ChunkList {
  ChunkGrid grid;
  std::vector<uint64_t> stored;  // their numbers in `grid`, ascending

  /// `properties`: the dataset's creation properties. EIO.
  static Result<ChunkList> of(hid_t dataset, hid_t properties);
  /// The chunk's first element.
  [[nodiscard]] std::vector<hsize_t> start_of(uint64_t number) const;
  /// The part of the chunk within the dataset, in elements.
  [[nodiscard]] std::vector<hsize_t> extent_of(uint64_t number) const;
};

struct RawChunk {
  uint32_t mask = 0;
  std::vector<std::byte> bytes;

  /// Reads a stored chunk from a file of `file_bytes`. EIO.
  static Result<RawChunk> read(hid_t dataset, const ChunkList& chunks, uint64_t number, uint64_t file_bytes);
  bool operator==(const RawChunk&) const = default;
};

/// Whether unchunked data has been allocated, which happens when it is first written, within the file of `file_bytes`.
/// EIO.
Result<bool> is_data_stored(hid_t dataset, uint64_t file_bytes);

}  // namespace codecfs::hdf5
