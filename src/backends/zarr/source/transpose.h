#pragma once
// Chunks in Fortran order (the first index runs fastest), turned to C order (the last one does). The way back is the
// same with the shape reversed: C order of shape (a, .., z) is Fortran order of shape (z, .., a).

#include <cstdint>
#include <span>

#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::zarr {

/// `chunk` holds the product of `shape` elements of `element_size` bytes. ENOMEM.
Result<Buffer> fortran_to_c(Bytes chunk, std::span<const uint64_t> shape, size_t element_size);

/// The same for items of variable length: LE32 count, then LE32 length and bytes of each (vlen-utf8, vlen-bytes and
/// vlen-array). EIO where the items do not fill the chunk exactly.
Result<Buffer> fortran_to_c_items(Bytes chunk, std::span<const uint64_t> shape);

/// EINVAL where such a chunk is not made of exactly `elements` items.
Result<> check_items(Bytes chunk, uint64_t elements);

}  // namespace codecfs::zarr
