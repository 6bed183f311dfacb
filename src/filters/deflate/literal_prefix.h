#pragma once
// Encodes the beginning of a deflate stream with a Huffman code only, several times as fast as a search for matches.
// Used for noise, such as the low bytes of measurements, which come first after a shuffle: matches in it save next to
// nothing.

#include <libdeflate.h>

#include "base/buffer.h"

namespace codecfs::filters::codecs {

struct LiteralPrefix {
  size_t taken = 0;    // bytes of the input consumed
  size_t written = 0;  // bytes of the output written
};

/// Upper bound on how much larger than its input a prefix of `size` bytes can be, including the room for word writes.
constexpr size_t literal_prefix_overhead(size_t size) { return size / 1024 + 64; }

/// Encodes the beginning of `in` (possibly nothing or all of it) that `compressor` would make smaller by about 1 % at
/// most. Writes blocks; the last one ends the stream if all input is taken, otherwise the compressor's blocks of the
/// rest may follow. `room` is also used as scratch space, and must have in.size() plus the overhead.
LiteralPrefix write_literal_prefix(Bytes in, libdeflate_compressor* compressor, MutableBytes room);

}  // namespace codecfs::filters::codecs
