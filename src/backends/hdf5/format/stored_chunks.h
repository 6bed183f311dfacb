#pragma once
// The chunks of a dataset as they are stored, each looked up by its coordinates. All functions under a LibraryLock.

#include <hdf5.h>

#include <cstdint>
#include <vector>

#include "backends/hdf5/library/handle.h"
#include "base/buffer.h"
#include "base/result.h"
#include "model/chunk_grid.h"

namespace codecfs::hdf5 {

/// Which chunks are stored.
struct ChunkList {
  ChunkGrid grid;
  std::vector<uint64_t> stored;  // their numbers in `grid`, ascending

  /// `properties`: what the dataset was created with. EIO.
  static Result<ChunkList> of(hid_t dataset, hid_t properties);
  /// Where a chunk begins, in elements.
  [[nodiscard]] std::vector<hsize_t> start_of(uint64_t number) const;
  /// What of it is inside the dataset, in elements.
  [[nodiscard]] std::vector<hsize_t> extent_of(uint64_t number) const;
};

struct RawChunk {
  uint32_t mask = 0;
  std::vector<std::byte> bytes;

  /// A chunk that is stored, in a file of `file_bytes`. EIO.
  static Result<RawChunk> read(hid_t dataset, const ChunkList& chunks, uint64_t number, uint64_t file_bytes);
  bool operator==(const RawChunk&) const = default;
};

/// Whether data that is not chunked has a place in the file of `file_bytes`, which it gets when it is written. EIO.
Result<bool> is_data_stored(hid_t dataset, uint64_t file_bytes);

}  // namespace codecfs::hdf5
