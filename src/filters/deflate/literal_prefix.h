#pragma once
// The beginning of a deflate stream by a Huffman code alone, which is several times as fast as a search for
// repetitions. It does for noise, like the low bytes of measurements, which are the first after a shuffle: matches
// there save next to nothing, or cost more than they save.

#include <libdeflate.h>

#include "base/buffer.h"

namespace codecfs::filters::codecs {

struct LiteralPrefix {
  size_t taken = 0;    // bytes of the input
  size_t written = 0;  // bytes of the output
};

/// Bytes that a prefix of `size` bytes takes more than these at most, and room to write it in words.
constexpr size_t literal_prefix_overhead(size_t size) { return size / 1024 + 64; }

/// Encodes the beginning of `in`, nothing or all of it too, which `compressor` would hardly make smaller (by about 1
/// %). What is written are blocks, whose last is the last of the stream where all was taken; else the compressor's
/// blocks of the rest may follow. `room` is used at will, and has no less than in.size() and the overhead.
LiteralPrefix write_literal_prefix(Bytes in, libdeflate_compressor* compressor, MutableBytes room);

}  // namespace codecfs::filters::codecs
