#pragma once
// Converts chunks from Fortran order (the first index varies fastest) to C order (the last one does). For the inverse,
// reverse the shape: C order of shape (a, .., z) is Fortran order of shape (z, .., a).

#include <cstdint>
#include <span>

#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::zarr {

/// `chunk` has the product of `shape` elements of `element_size` bytes. ENOMEM.
Result<Buffer> fortran_to_c(Bytes chunk, std::span<const uint64_t> shape, size_t element_size);

/// The same for variable-length items: LE32 count, then LE32 length and bytes of each (vlen-utf8, vlen-bytes and
/// vlen-array). EIO if the items do not fill the chunk exactly.
Result<Buffer> fortran_to_c_items(Bytes chunk, std::span<const uint64_t> shape);

/// EINVAL if such a chunk does not have exactly `elements` items.
Result<> check_items(Bytes chunk, uint64_t elements);

}  // namespace codecfs::zarr
