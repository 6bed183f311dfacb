#pragma once
// Huffman codes as deflate has them: canonical, of limited length (RFC 1951, 3.2.2).

#include <cstdint>
#include <span>

namespace codecfs::filters::codecs {

struct HuffmanCode {
  uint16_t bits = 0;   // the first bit of the stream is the lowest
  uint8_t length = 0;  // bits; 0 where the symbol does not occur
};

constexpr size_t kDeflateSymbols = 286;  // literals, the end of a block, lengths

/// Codes of at most `longest` bits (<= 15) for symbols that occur so often. Two symbols at least occur, and not more
/// than kDeflateSymbols or 2^longest; there is room for as many codes as counts.
void make_huffman_codes(std::span<const uint32_t> counts, unsigned longest, std::span<HuffmanCode> codes);

}  // namespace codecfs::filters::codecs
