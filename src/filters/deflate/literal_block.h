#pragma once
// A deflate block of literals and of runs of one byte, without a search for other matches. RFC 1951.

#include <array>
#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "base/endian.h"
#include "filters/deflate/huffman.h"

namespace codecfs::filters::codecs {

/// Writes bits, the lowest first.
class BitWriter {
 public:
  /// Writes 8-byte words, so the buffer must have 7 bytes of room after the last byte.
  explicit BitWriter(std::byte* to) : start_(to), to_(to) {}

  /// At most 57 bits may be added between two calls of flush().
  void add(uint64_t bits, unsigned count) {
    bits_ |= bits << count_;
    count_ += count;
  }
  void add(HuffmanCode code) { add(code.bits, code.length); }
  void flush() {
    store_le(to_, bits_);
    to_ += count_ / 8;
    bits_ >>= count_ & ~7U;
    count_ %= 8;
  }
  void put(uint64_t bits, unsigned count) {
    add(bits, count);
    flush();
  }
  void align() { put(0, (8 - count_) % 8); }
  [[nodiscard]] bool aligned() const { return count_ == 0; }
  /// Requires byte alignment.
  void copy(Bytes bytes);
  /// Number of whole bytes written.
  [[nodiscard]] size_t written() const { return static_cast<size_t>(to_ - start_); }

 private:
  std::byte* start_;
  std::byte* to_;
  uint64_t bits_ = 0;
  unsigned count_ = 0;
};

/// A run: copies of the byte before it.
struct Run {
  size_t begin;
  size_t end;
};

struct LiteralBlock {
  size_t begin = 0;  // offset in the input
  size_t end = 0;
  std::vector<Run> runs;                              // by offset, 3 bytes or more each
  std::array<uint32_t, kDeflateSymbols> counts = {};  // of literals, the end of the block, lengths
  double bits = 0;                                    // approximate encoded size

  [[nodiscard]] size_t size() const { return end - begin; }
};

/// Makes a block of `in` from `begin` to `end`.
LiteralBlock make_block(Bytes in, size_t begin, size_t end);
/// Merges two adjacent blocks into one.
LiteralBlock joined(const LiteralBlock& a, const LiteralBlock& b);

/// Entropy in bits of symbols with these counts, by an ideal code.
double entropy(std::span<const uint32_t> counts);

/// Encoded size in bits, except for the padding of a stored block.
size_t exact_bits(const LiteralBlock& block);
/// Writes the block, not as the last of the stream; as a stored block if that is smaller. Needs at most the size of the
/// input, plus 5 bytes, plus 5 bytes for each 65535 bytes of it.
void write_block(Bytes in, const LiteralBlock& block, BitWriter& out);
/// Writes empty blocks: one that aligns the next block to a byte if needed, and the last block of a stream.
void write_alignment(BitWriter& out);
void write_end(BitWriter& out);

/// Calls `stretch(begin, end)` for each range between the runs.
template <class Stretch>
void between_runs(const LiteralBlock& block, Stretch&& stretch) {
  size_t begin = block.begin;
  for (const Run& run : block.runs) {
    stretch(begin, run.begin);
    begin = run.end;
  }
  stretch(begin, block.end);
}

}  // namespace codecfs::filters::codecs
