#pragma once
// Where libhdf5 keeps the chunks of a chunked dataset. All functions under a LibraryLock.

#include <cstdint>
#include <span>
#include <string_view>
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

/// Whether a failure of this function of libhdf5 says no more than that a chunk is not stored (before 1.12).
bool tells_absence(std::string_view function);
/// One lookup in the index, at an offset in elements. No raw data is read. EIO.
Result<StoredChunk> locate_chunk(hid_t dataset, std::span<const uint64_t> offset);
/// Whether there is a chunk: half the work of locate_chunk(). EIO.
Result<bool> is_chunk_stored(hid_t dataset, std::span<const uint64_t> offset);
/// Number of stored chunks. Walks the whole index. EIO.
Result<uint64_t> count_stored_chunks(hid_t dataset);
/// The numbers in `grid` of all stored chunks, ascending, by one walk of the index; unless the index is a B-tree, each
/// is also looked up. `rank`: dimensions of the dataset, those of `grid` beyond it being parts of the element. EIO,
/// ENOMEM.
Result<std::vector<uint64_t>> list_stored_chunks(hid_t dataset, const ChunkGrid& grid, size_t rank);

/// Whether libhdf5's own walk of the index, with which H5Ocopy copies, gives the right coordinates: in 1.10 not for an
/// extensible array whose unlimited dimension is not the first. EIO.
Result<bool> walk_is_right(hid_t dataset);

}  // namespace codecfs::hdf5
