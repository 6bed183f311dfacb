#pragma once
// Reads the chunks of an array with a rectilinear grid, which are put together of the stored ones. Needs
// OpenStore::using_keys(), but for decoding.

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/api/chunk.h"
#include "backends/zarr/source/open_array.h"
#include "backends/zarr/store/store.h"
#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::zarr {

/// A stored chunk.
struct RectilinearPiece {
  std::vector<uint64_t> coordinates;
  std::string key;
  Buffer bytes;
};

/// Whether a stored chunk overlaps the presented one, and the bytes that they take together.
Result<ChunkInfo> locate_rectilinear(const Store& store, const OpenArray& array, uint64_t number);
/// The presented chunks that overlap a stored one, ascending.
Result<std::vector<uint64_t>> stored_rectilinear(const Store& store, const OpenArray& array);
/// The stored chunks that overlap the presented one.
Result<std::vector<RectilinearPiece>> read_rectilinear(const Store& store, const OpenArray& array, uint64_t number);
/// Puts the presented chunk together; what is not stored is fill. Needs no lock.
Result<Buffer> join_rectilinear(const OpenArray& array, uint64_t number, std::vector<RectilinearPiece> pieces);

}  // namespace codecfs::zarr
