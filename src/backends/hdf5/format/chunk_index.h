#pragma once
// Locates the chunks of a chunked dataset. All functions under a LibraryLock.

#include <cstdint>
#include <span>
#include <vector>

#include "backends/hdf5/library/handle.h"
#include "base/result.h"
#include "model/chunk_grid.h"

namespace codecfs::hdf5 {

struct StoredChunk {
  bool stored = false;
  uint64_t address = 0;  // bytes from the start of the file
  uint64_t size = 0;     // bytes as stored
  uint32_t filter_mask = 0;
};

/// Looks up one chunk by its offset in elements. Reads no raw data. EIO.
Result<StoredChunk> locate_chunk(hid_t dataset, std::span<const uint64_t> offset);
/// Whether a chunk is stored: half the work of locate_chunk(). EIO.
Result<bool> is_chunk_stored(hid_t dataset, std::span<const uint64_t> offset);
/// Number of stored chunks. Scans the whole index. EIO.
Result<uint64_t> count_stored_chunks(hid_t dataset);
/// The numbers in `grid` of all stored chunks, ascending, by one scan of the index; unless the index is a B-tree, each
/// is also looked up. `rank`: dimensions of the dataset; further dimensions of `grid` belong to array elements. EIO,
/// ENOMEM.
Result<std::vector<uint64_t>> list_stored_chunks(hid_t dataset, const ChunkGrid& grid, size_t rank);

/// Whether libhdf5's own iteration of the index, which H5Ocopy uses, returns correct coordinates. In 1.10 it does not
/// for an extensible array whose unlimited dimension is not the first. EIO.
Result<bool> walk_is_right(hid_t dataset);

}  // namespace codecfs::hdf5
