#pragma once
// Byte planes: byte 0 of all elements, then byte 1 of all, and so on, as the shuffle filter stores them.
//
//   elements (size 4)   a0 a1 a2 a3 | b0 b1 b2 b3 | c0 c1 c2 c3
//   planes              a0 b0 c0 | a1 b1 c1 | a2 b2 c2 | a3 b3 c3

#include <cstddef>

#include "base/buffer.h"

namespace codecfs::filters {

/// Converts `count` elements of `size` bytes from planes at `from` to elements at `to`, which must not overlap. Uses
/// SSE2 or AVX2, chosen at run time, for sizes 2, 4, 8 and 16.
void join_byte_planes(const std::byte* from, std::byte* to, size_t count, size_t size);

/// As join_byte_planes() of `count` elements, for all of `from`. Trailing bytes that are not a whole element are
/// copied.
void join_byte_planes(Bytes from, std::byte* to, size_t size);

/// The inverse of the first: converts elements at `from` to planes at `to`, with the same instructions.
void split_byte_planes(const std::byte* from, std::byte* to, size_t count, size_t size);

}  // namespace codecfs::filters
