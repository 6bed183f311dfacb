// Builds the tree by merging the two rarest nodes, which are at the heads of two sorted queues: the leaves, and the
// merged nodes. Leaves deeper than the limit are moved up, and others down, until the code is complete again. That is
// rarely needed, and close to optimal then.

#include "filters/deflate/huffman.h"

#include <algorithm>
#include <array>

namespace codecfs::filters::codecs {
namespace {

constexpr unsigned kMaxBits = 15;

struct Leaf {
  uint32_t count;
  uint16_t symbol;
};

/// Number of codes of each length.
using Lengths = std::array<uint32_t, kMaxBits + 1>;

/// Depths of the leaves, which must be sorted by their counts; deeper ones count as `longest`.
Lengths tree_depths(std::span<const Leaf> leaves, unsigned longest) {
  std::array<uint64_t, kDeflateSymbols> merged;  // counts
  std::array<uint16_t, 2 * kDeflateSymbols> parents;
  std::array<uint16_t, 2 * kDeflateSymbols> depths;
  size_t leaf = 0;
  size_t node = 0;
  const size_t last = leaves.size() - 1;
  for (size_t made = 0; made < last; ++made) {
    merged[made] = 0;
    for (int child = 0; child < 2; ++child) {
      const bool is_leaf = leaf < leaves.size() && (node == made || leaves[leaf].count <= merged[node]);
      merged[made] += is_leaf ? leaves[leaf].count : merged[node];
      parents[is_leaf ? leaf++ : leaves.size() + node++] = static_cast<uint16_t>(leaves.size() + made);
    }
  }
  Lengths lengths = {};
  const size_t root = leaves.size() + last - 1;
  depths[root] = 0;
  for (size_t i = root; i-- > 0;) {
    depths[i] = static_cast<uint16_t>(depths[parents[i]] + 1);
    if (i < leaves.size()) ++lengths[std::min<size_t>(depths[i], longest)];
  }
  return lengths;
}

/// Restores a complete code after leaves deeper than `longest` were moved up to it.
void complete(Lengths& lengths, unsigned longest) {
  uint32_t used = 0;  // number of the 2^longest codes that are in use
  for (unsigned length = 1; length <= longest; ++length) used += lengths[length] << (longest - length);
  for (; used > 1U << longest; --used) {
    unsigned above = longest - 1;
    while (lengths[above] == 0) --above;
    --lengths[above];
    lengths[above + 1] += 2;
    --lengths[longest];
  }
}

uint16_t reversed(uint32_t bits, unsigned length) {
  uint32_t result = 0;
  for (unsigned i = 0; i < length; ++i) result |= ((bits >> i) & 1) << (length - 1 - i);
  return static_cast<uint16_t>(result);
}

}  // namespace

void make_huffman_codes(std::span<const uint32_t> counts, unsigned longest, std::span<HuffmanCode> codes) {
  std::array<Leaf, kDeflateSymbols> room;
  size_t used = 0;
  for (size_t symbol = 0; symbol < counts.size(); ++symbol)
    if (counts[symbol] != 0) room[used++] = {counts[symbol], static_cast<uint16_t>(symbol)};
  const std::span leaves(room.data(), used);
  std::ranges::sort(leaves, [](const Leaf& a, const Leaf& b) {
    return a.count != b.count ? a.count < b.count : a.symbol < b.symbol;
  });

  Lengths lengths = tree_depths(leaves, longest);
  complete(lengths, longest);
  std::ranges::fill(codes, HuffmanCode{});
  size_t leaf = 0;
  for (unsigned length = longest; length > 0; --length)
    for (uint32_t i = 0; i < lengths[length]; ++i) codes[leaves[leaf++].symbol].length = static_cast<uint8_t>(length);

  std::array<uint32_t, kMaxBits + 2> next = {};
  for (unsigned length = 1; length <= longest; ++length) next[length + 1] = (next[length] + lengths[length]) << 1;
  for (HuffmanCode& code : codes)
    if (code.length != 0) code.bits = reversed(next[code.length]++, code.length);
}

}  // namespace codecfs::filters::codecs
