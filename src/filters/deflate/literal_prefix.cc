// Examines the input in slices; the first slice that is not noise ends the prefix. Noise has few matches that are
// shorter than their literals: a sample of the positions of each slice is looked up in the window. That detects distant
// repetitions, but estimates the savings of short ones badly; so where the statistics of the bytes change, the
// compressor tries a slice too. Slices with similar statistics share a block.
//
// Runs of one byte need no search: masked areas lie within noise, and the low bytes of rounded data are zeros.

#include "filters/deflate/literal_prefix.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <memory>

#include "base/endian.h"
#include "filters/deflate/literal_block.h"

namespace codecfs::filters::codecs {
namespace {

// In bytes. A slice is at most a sixteenth of the input, as examining it may be wasted time.
constexpr size_t kLeastOfSlice = 4 << 10;
constexpr size_t kMaxOfSlice = 16 << 10;
constexpr size_t kMaxOfBlock = 256 << 10;
constexpr size_t kWindow = 32 << 10;  // maximum distance of deflate's matches

// In bits: the literals that a worthwhile match replaces at least; the cost of a match without its distance bits.
constexpr double kLeastMatch = 20;
constexpr double kMatchCost = 8;

// The share that matches may save if they are not searched: in a slice, in all input so far (more at the beginning, as
// noise varies), and in a slice that the compressor has tried.
constexpr double kMaxInSlice = 1.0 / 24;
constexpr double kMaxInAll = 1.0 / 100;
constexpr double kBeginning = 8 * (32 << 10);  // bits
constexpr double kMaxTried = 1.0 / 100;

/// What matches would save, in bits.
struct Gain {
  double all = 0;
  double from_before = 0;  // part of it that comes from matches with data before the slice
};

/// The latest positions of byte sequences.
class Places {
 public:
  explicit Places(Bytes in) : in_(in) { last_.fill(kNowhere); }

  /// Estimates what matches save in a slice, which must be the next of the input.
  Gain gain(const LiteralBlock& slice) {
    const std::span literals(slice.counts.data(), 256);
    double count = 0;
    for (const uint32_t n : literals) count += n;
    const double each = count == 0 ? 8 : entropy(literals) / count;
    bits_unused_ = 64 - 8 * static_cast<unsigned>(std::clamp(std::ceil(kLeastMatch / each), 3.0, 8.0));
    Gain gain;
    between_runs(slice, [&](size_t begin, size_t end) { look_up(begin, end, slice.begin, each, gain); });
    return gain;
  }

 private:
  static constexpr size_t kStep =
      10;  // positions; two of them are looked up, and the even ones are stored: one lookup finds the other
  static constexpr unsigned kHashBits = 14;
  static constexpr uint32_t kNowhere = 1U << 31;

  struct Place {
    uint64_t key;
    uint32_t* last;
  };

  void look_up(size_t begin, size_t end, size_t slice, double each, Gain& gain) {
    for (size_t at = begin & ~size_t{1}; at < end && at + kStep + 8 < in_.size(); at += kStep) {
      const size_t here = distance(at);
      const size_t next = distance(at + 1);
      keep(at, std::min(end, at + kStep));
      if (here + next == 0) continue;
      const size_t found = here != 0 ? at : at + 1;
      const size_t back = here != 0 ? here : next;
      const double saved = saved_bits(found, back, each) * static_cast<double>(std::min(kStep, end - at));
      gain.all += saved;
      if (found - back < slice) gain.from_before += saved;
    }
  }

  void keep(size_t begin, size_t end) {
    if (end == begin + kStep) {
#pragma GCC unroll 8
      for (size_t i = 0; i < kStep; i += 2) *place(begin + i).last = static_cast<uint32_t>(begin + i);
    } else {
      for (size_t i = begin; i < end; i += 2) *place(i).last = static_cast<uint32_t>(i);
    }
  }

  Place place(size_t at) {
    const uint64_t key = load_le<uint64_t>(in_.data() + at) << bits_unused_;
    return {key, &last_[(key * 0x9E3779B97F4A7C15U) >> (64 - kHashBits)]};
  }

  /// Distance to the previous occurrence of the same bytes; 0 if it is not in the window.
  size_t distance(size_t at) {
    const auto [key, last] = place(at);
    const size_t distance = static_cast<uint32_t>(at) - *last;
    const size_t other = at - std::min(at, distance);  // clamped instead of tested: the branch is unpredictable
    const bool same = load_le<uint64_t>(in_.data() + other) << bits_unused_ == key;
    return (same & (distance <= std::min(at, kWindow))) ? distance : 0;
  }

  /// The share of this position in the gain of its match: the cost of its literal if the match is long enough without
  /// this byte, else the remainder after the cost of the match.
  [[nodiscard]] double saved_bits(size_t at, size_t distance, double each) const {
    const uint64_t other = load_le<uint64_t>(in_.data() + at) ^ load_le<uint64_t>(in_.data() + at - distance);
    const double literals = std::countr_zero(other) / 8 * each;
    return std::clamp(literals - kMatchCost - static_cast<double>(std::bit_width(distance)), 0.0, each);
  }

  Bytes in_;
  unsigned bits_unused_ = 0;  // unused bits of a word, so that the key has the length of the shortest match
  std::array<uint32_t, size_t{1} << kHashBits> last_;  // modulo 2^32
};

/// Whether the compressor makes a slice clearly smaller. `scratch` must have room for the result.
bool compresses_better(Bytes slice, const LiteralBlock& block, libdeflate_compressor* compressor,
                       MutableBytes scratch) {
  const auto bytes = static_cast<double>(
      libdeflate_deflate_compress(compressor, slice.data(), slice.size(), scratch.data(), scratch.size()));
  return bytes != 0 && 8 * bytes < static_cast<double>(exact_bits(block)) * (1 - kMaxTried);
}

class Encoder {
 public:
  Encoder(Bytes in, libdeflate_compressor* compressor, MutableBytes room)
      : in_(in), compressor_(compressor), room_(room), out_(room.data()), places_(std::make_unique<Places>(in)) {}

  LiteralPrefix write() {
    while (block_.end < in_.size()) {
      const size_t rest = in_.size() - block_.end;
      LiteralBlock slice = make_block(in_, block_.end, block_.end + (rest < 2 * slice_ ? rest : slice_));
      const Gain gain = places_->gain(slice);
      bits_ += slice.bits;
      lost_ += gain.all;
      const bool pays =
          gain.all > slice.bits * kMaxInSlice || lost_ > (bits_ + std::min(bits_, kBeginning)) * kMaxInAll;
      if (!pays && add(std::move(slice))) continue;
      // libdeflate compresses the rest without a window, so it finds no matches with the prefix.
      if (gain.from_before * static_cast<double>(kWindow / slice_) > bits_ * kMaxInAll) return {};
      break;
    }
    if (block_.end == 0) return {};
    write_block(in_, block_, out_);
    if (block_.end == in_.size())
      write_end(out_);
    else
      write_alignment(out_);
    return {block_.end, out_.written()};
  }

 private:
  /// False if the slice does not belong to the prefix.
  bool add(LiteralBlock slice) {
    LiteralBlock both = joined(block_, slice);
    const bool alike = block_.end != 0 && both.bits <= block_.bits + slice.bits;
    if (!alike &&
        compresses_better(in_.subspan(slice.begin, slice.size()), slice, compressor_, room_.subspan(out_.written())))
      return false;
    if (alike && both.size() <= kMaxOfBlock) {
      block_ = std::move(both);
    } else {
      if (block_.end != 0) write_block(in_, block_, out_);
      block_ = std::move(slice);
    }
    return true;
  }

  const Bytes in_;
  const size_t slice_ = std::clamp(in_.size() / 16, kLeastOfSlice, kMaxOfSlice);
  libdeflate_compressor* const compressor_;
  const MutableBytes room_;
  BitWriter out_;
  const std::unique_ptr<Places> places_;  // 64 KiB
  LiteralBlock block_;                    // not written yet
  double bits_ = 0;                       // approximate output size
  double lost_ = 0;                       // bits that matches would have saved
};

}  // namespace

LiteralPrefix write_literal_prefix(Bytes in, libdeflate_compressor* compressor, MutableBytes room) {
  if (in.size() < 2 * kLeastOfSlice) return {};
  return Encoder(in, compressor, room).write();
}

}  // namespace codecfs::filters::codecs
