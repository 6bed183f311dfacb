#pragma once
// Divides the keys of an array's chunks among lists that can be requested at a time. Thread-safe.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/chunk_grid.h"
#include "model/chunk_keys.h"

namespace codecfs::zarr {

/// Prefixes of chunk keys ("c/1", "c/2/", ...), ascending, such that each key of the grid begins with exactly one of
/// them. At most `most`, with about `each` keys of a full grid or fewer; more where no further digit divides them.
/// Empty if the keys cannot be divided.
std::vector<std::string> listing_prefixes(const ChunkGrid& grid, const ChunkKeys& keys, uint64_t each, size_t most);

}  // namespace codecfs::zarr
