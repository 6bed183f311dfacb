#pragma once
// Huffman codes as deflate uses them: canonical, of limited length (RFC 1951, 3.2.2).

#include <cstdint>
#include <span>

namespace codecfs::filters::codecs {

struct HuffmanCode {
  uint16_t bits = 0;   // the lowest bit is the first in the stream
  uint8_t length = 0;  // bits; 0 if the symbol does not occur
};

constexpr size_t kDeflateSymbols = 286;  // literals, the end of a block, lengths

/// Computes codes of at most `longest` bits (<= 15) for symbols with these counts. At least two and at most
/// min(kDeflateSymbols, 2^longest) counts must be nonzero; `codes` must have counts.size() items.
void make_huffman_codes(std::span<const uint32_t> counts, unsigned longest, std::span<HuffmanCode> codes);

}  // namespace codecfs::filters::codecs
