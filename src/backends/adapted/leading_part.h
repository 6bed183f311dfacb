#pragma once
// The part of a chunk that begins at its first element, as a smaller chunk.

#include <cstdint>
#include <span>

#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::adapted {

/// Both shapes have the same rank, and no length of `wanted` exceeds that of `chunks`. The chunk is in C order, and has
/// elements of `size` bytes. EIO if it has another number of bytes.
Result<Buffer> leading_part(Bytes chunk, std::span<const uint64_t> chunks, std::span<const uint64_t> wanted,
                            uint64_t size);

/// As leading_part(), for items of variable length (vlen-utf8 and similar): LE32 count, then LE32 length and bytes of
/// each.
Result<Buffer> leading_items(Bytes chunk, std::span<const uint64_t> chunks, std::span<const uint64_t> wanted);

}  // namespace codecfs::adapted
