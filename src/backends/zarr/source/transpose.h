#pragma once
// Permutes the axes of chunks, as numpy.transpose does: axis i of the result is axis order[i] of the input. Both are in
// C order (the last axis varies fastest).

#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::zarr {

/// `chunk` has the product of `shape` elements of `element_size` bytes. ENOMEM.
Result<Buffer> transpose(Bytes chunk, std::span<const uint64_t> shape, std::span<const size_t> order,
                         size_t element_size);

/// As transpose(), for variable-length items: LE32 count, then LE32 length and bytes of each (vlen-utf8, vlen-bytes and
/// vlen-array). EIO if the items do not fill the chunk exactly.
Result<Buffer> transpose_items(Bytes chunk, std::span<const uint64_t> shape, std::span<const size_t> order);

/// The order that undoes another one.
std::vector<size_t> inverse_order(std::span<const size_t> order);
/// The shape of the result.
std::vector<uint64_t> transposed_shape(std::span<const uint64_t> shape, std::span<const size_t> order);

/// EINVAL if such a chunk does not have exactly `elements` items.
Result<> check_items(Bytes chunk, uint64_t elements);

}  // namespace codecfs::zarr
