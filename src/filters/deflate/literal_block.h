#pragma once
// A deflate block of literals, and of runs of one byte; no other repetitions are looked for. RFC 1951.

#include <array>
#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "base/endian.h"
#include "filters/deflate/huffman.h"

namespace codecfs::filters::codecs {

/// Bits of a stream, the lowest first.
class BitWriter {
 public:
  /// Writes words of 8 bytes, so 7 bytes of room after the last are needed.
  explicit BitWriter(std::byte* to) : start_(to), to_(to) {}

  /// At most 57 bits between two calls of flush().
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
  /// Only where aligned.
  void copy(Bytes bytes);
  /// Whole bytes.
  [[nodiscard]] size_t written() const { return static_cast<size_t>(to_ - start_); }

 private:
  std::byte* start_;
  std::byte* to_;
  uint64_t bits_ = 0;
  unsigned count_ = 0;
};

/// Copies of the byte before it.
struct Run {
  size_t begin;
  size_t end;
};

struct LiteralBlock {
  size_t begin = 0;  // of the input
  size_t end = 0;
  std::vector<Run> runs;                              // by place, 3 bytes or more each
  std::array<uint32_t, kDeflateSymbols> counts = {};  // of literals, the end of the block, lengths
  double bits = 0;                                    // about so many when written

  [[nodiscard]] size_t size() const { return end - begin; }
};

/// `in` from `begin` to `end` as a block.
LiteralBlock make_block(Bytes in, size_t begin, size_t end);
/// Both, one after the other, as one block.
LiteralBlock joined(const LiteralBlock& a, const LiteralBlock& b);

/// Bits that symbols of these counts have by the best code.
double entropy(std::span<const uint32_t> counts);

/// Bits of the block when written, but for the padding of a stored one.
size_t exact_bits(const LiteralBlock& block);
/// Writes the block, which is not the last of the stream; stored where that is smaller. It takes 5 bytes more than the
/// input, and for each 65535 of it, at most.
void write_block(Bytes in, const LiteralBlock& block, BitWriter& out);
/// Blocks of nothing: one after which the next begins at a whole byte, if it does not anyway, and the last of a stream.
void write_alignment(BitWriter& out);
void write_end(BitWriter& out);

/// Calls `stretch(begin, end)` for what is between the runs.
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
