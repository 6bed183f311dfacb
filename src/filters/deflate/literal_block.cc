// Block format of RFC 1951, after the bit that marks the last block:
//
//   type:2 = 0 stored: padding | length LE16 | ~length LE16 | bytes
//            1 fixed codes: symbols | end
//            2 own codes: the codes' lengths | symbols | end

#include "filters/deflate/literal_block.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace codecfs::filters::codecs {
namespace {

constexpr size_t kMaxStored = 65535;  // limit for a stored block, in bytes
constexpr size_t kEnd = 256;          // the end-of-block symbol; the symbols of lengths follow
// 1, which is the only one used, and 2: some decoders reject a code of one symbol
constexpr size_t kDistances = 2;
constexpr size_t kLengthSymbols = 19;  // of the code that encodes the lengths of codes
constexpr unsigned kLongestCode = 14;  // instead of 15: four of them and 7 bits fit a word
constexpr unsigned kLongestLengthCode = 7;

using BlockCodes = std::array<HuffmanCode, kDeflateSymbols>;

struct LengthClass {
  uint16_t shortest;
  uint8_t extra_bits;
};

constexpr std::array<LengthClass, 29> kLengthClasses = {
    {{3, 0},  {4, 0},  {5, 0},  {6, 0},   {7, 0},   {8, 0},   {9, 0},   {10, 0},  {11, 1}, {13, 1},
     {15, 1}, {17, 1}, {19, 2}, {23, 2},  {27, 2},  {31, 2},  {35, 3},  {43, 3},  {51, 3}, {59, 3},
     {67, 4}, {83, 4}, {99, 4}, {115, 4}, {131, 5}, {163, 5}, {195, 5}, {227, 5}, {258, 0}}};

size_t length_class(size_t length) {
  const auto after = std::ranges::upper_bound(kLengthClasses, length, {}, &LengthClass::shortest);
  return static_cast<size_t>(after - kLengthClasses.begin()) - 1;
}

/// Calls `match(length)` for each match of a run.
template <class Match>
void split_run(const Run& run, Match&& match) {
  for (size_t size = run.end - run.begin; size > 0;) {
    const size_t length = size > 260 ? 258 : size > 258 ? 255 : size;  // so that the rest is never shorter than 3
    match(length);
    size -= length;
  }
}

// ---------------------------------------------------------------- what a block has

/// Finds runs of 15 bytes and more, each of which contains an aligned word of one byte value; shorter runs may be
/// literals.
std::vector<Run> find_runs(Bytes in, size_t begin, size_t end) {
  std::vector<Run> runs;
  size_t free = std::max<size_t>(begin, 1);  // end of the previous run
  for (size_t at = begin; at + 8 <= end; at += 8) {
    const auto word = load_le<uint64_t>(in.data() + at);
    if (word != std::rotl(word, 8) || at + 8 <= free) continue;
    Run run = {std::max(at, free), at + 8};
    while (run.begin > free && in[run.begin - 1] == in[at]) --run.begin;
    while (run.end < end && in[run.end] == in[at]) ++run.end;
    if (in[run.begin - 1] != in[at]) ++run.begin;
    if (run.end - run.begin < 3) continue;
    runs.push_back(run);
    free = run.end;
  }
  return runs;
}

void count_literals(Bytes bytes, std::span<uint32_t> counts) {
  std::array<std::array<uint32_t, 256>, 4> apart = {};  // separate tables avoid a store-to-load dependency
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    const auto word = load_le<uint64_t>(bytes.data() + at);
#pragma GCC unroll 8
    for (unsigned i = 0; i < 8; ++i) ++apart[i % 4][word >> 8 * i & 0xff];
  }
  for (; at < bytes.size(); ++at) ++apart[0][static_cast<uint8_t>(bytes[at])];
  for (size_t i = 0; i < 256; ++i) counts[i] += apart[0][i] + apart[1][i] + apart[2][i] + apart[3][i];
}

double stored_bits(const LiteralBlock& block) { return static_cast<double>(8 * block.size() + 40); }

/// The extra bits after the length symbols of all matches.
size_t match_bits(const LiteralBlock& block) {
  size_t bits = 0;
  for (size_t i = 0; i < kLengthClasses.size(); ++i)
    bits += size_t{block.counts[kEnd + 1 + i]} * (kLengthClasses[i].extra_bits + 1U);
  return bits;
}

double estimated_bits(const LiteralBlock& block) {
  const auto used = std::ranges::count_if(block.counts, [](uint32_t count) { return count != 0; });
  const double codes = 100 + 3 * static_cast<double>(used);
  return std::min(codes + entropy(block.counts) + static_cast<double>(match_bits(block)), stored_bits(block));
}

// ---------------------------------------------------------------- codes

/// How the lengths of a block's codes are encoded: run-length encoded, with a Huffman code of its own.
class CodeLengths {
 public:
  explicit CodeLengths(std::span<const HuffmanCode> codes) {
    while (codes.back().length == 0) codes = codes.first(codes.size() - 1);  // the last symbol always has a code
    told_codes_ = codes.size();
    std::array<uint8_t, kDeflateSymbols + kDistances> lengths;
    for (size_t i = 0; i < codes.size(); ++i) lengths[i] = codes[i].length;
    for (size_t i = 0; i < kDistances; ++i) lengths[codes.size() + i] = 1;
    pack(std::span(lengths.data(), codes.size() + kDistances));
    make_huffman_codes(counts_, kLongestLengthCode, codes_);
    told_lengths_ = kOrder.size();
    while (codes_[kOrder[told_lengths_ - 1]].length == 0) --told_lengths_;
  }

  [[nodiscard]] size_t bits() const {
    size_t sum = 5 + 5 + 4 + 3 * told_lengths_;
    for (const Item& item : std::span(items_.data(), used_))
      sum += codes_[item.symbol].length + size_t{item.extra_bits};
    return sum;
  }

  void write(BitWriter& out) const {
    out.put((told_codes_ - (kEnd + 1)) | (kDistances - 1) << 5 | (told_lengths_ - 4) << 10, 14);
    for (size_t i = 0; i < told_lengths_; ++i) out.put(codes_[kOrder[i]].length, 3);
    for (const Item& item : std::span(items_.data(), used_)) {
      out.add(codes_[item.symbol]);
      out.put(item.extra, item.extra_bits);
    }
  }

 private:
  static constexpr std::array<uint8_t, kLengthSymbols> kOrder = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                                                 11, 4,  12, 3, 13, 2, 14, 1, 15};
  /// A length, 0 to 15; 16: repeat the previous length 3 to 6 times; 17 and 18: 3 to 10, and 11 to 138 zeros.
  struct Item {
    uint8_t symbol;
    uint8_t extra;
    uint8_t extra_bits;
  };

  void add(unsigned symbol, size_t extra = 0, unsigned extra_bits = 0) {
    items_[used_++] = {static_cast<uint8_t>(symbol), static_cast<uint8_t>(extra), static_cast<uint8_t>(extra_bits)};
    ++counts_[symbol];
  }

  void pack(std::span<const uint8_t> lengths) {
    while (!lengths.empty()) {
      const uint8_t length = lengths.front();
      const auto other = std::ranges::find_if(lengths, [&](uint8_t next) { return next != length; });
      const auto same = static_cast<size_t>(other - lengths.begin());
      if (length == 0)
        add_zeros(same);
      else
        add_same(length, same);
      lengths = lengths.subspan(same);
    }
  }

  void add_zeros(size_t left) {
    while (left >= 3) {
      const size_t count = std::min<size_t>(left, 138);
      if (count > 10)
        add(18, count - 11, 7);
      else
        add(17, count - 3, 3);
      left -= count;
    }
    for (; left > 0; --left) add(0);
  }

  void add_same(uint8_t length, size_t left) {
    add(length);
    for (--left; left >= 3;) {
      const size_t count = std::min<size_t>(left, 6);
      add(16, count - 3, 2);
      left -= count;
    }
    for (; left > 0; --left) add(length);
  }

  size_t told_codes_ = 0;
  size_t told_lengths_ = 0;
  std::array<Item, kDeflateSymbols + kDistances> items_;
  size_t used_ = 0;
  std::array<uint32_t, kLengthSymbols> counts_ = {};
  std::array<HuffmanCode, kLengthSymbols> codes_ = {};
};

BlockCodes codes_of(const LiteralBlock& block) {
  BlockCodes codes;
  make_huffman_codes(block.counts, kLongestCode, codes);
  return codes;
}

size_t coded_bits(const LiteralBlock& block, const BlockCodes& codes, const CodeLengths& lengths) {
  size_t bits = 3 + lengths.bits() + match_bits(block);
  for (size_t i = 0; i < codes.size(); ++i) bits += size_t{block.counts[i]} * codes[i].length;
  return bits;
}

// ---------------------------------------------------------------- writing

void write_stored(Bytes bytes, BitWriter& out) {
  while (!bytes.empty()) {
    const Bytes piece = bytes.first(std::min(bytes.size(), kMaxStored));
    out.put(0, 3);
    out.align();
    out.put(piece.size() | (~piece.size() & 0xffff) << 16, 32);
    out.copy(piece);
    bytes = bytes.subspan(piece.size());
  }
}

void write_literals(Bytes bytes, const BlockCodes& codes, BitWriter& out) {
  BitWriter registers = out;
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    const auto word = load_le<uint64_t>(bytes.data() + at);
#pragma GCC unroll 8
    for (unsigned i = 0; i < 8; ++i) {
      registers.add(codes[word >> 8 * i & 0xff]);
      if (i % 4 == 3) registers.flush();
    }
  }
  for (; at < bytes.size(); ++at) {
    registers.add(codes[static_cast<uint8_t>(bytes[at])]);
    registers.flush();
  }
  out = registers;
}

void write_run(const Run& run, const BlockCodes& codes, BitWriter& out) {
  split_run(run, [&](size_t length) {
    const size_t index = length_class(length);
    out.add(codes[kEnd + 1 + index]);
    out.add(length - kLengthClasses[index].shortest, kLengthClasses[index].extra_bits);
    out.put(0, 1);  // distance 1
  });
}

}  // namespace

void BitWriter::copy(Bytes bytes) {
  if (!bytes.empty()) std::memcpy(to_, bytes.data(), bytes.size());
  to_ += bytes.size();
}

double entropy(std::span<const uint32_t> counts) {
  double sum = 0;
  double bits = 0;
  for (const uint32_t count : counts) {
    if (count == 0) continue;
    sum += count;
    bits -= count * std::log2(static_cast<double>(count));
  }
  return sum == 0 ? 0 : bits + sum * std::log2(sum);
}

LiteralBlock make_block(Bytes in, size_t begin, size_t end) {
  LiteralBlock block = {.begin = begin, .end = end, .runs = find_runs(in, begin, end)};
  between_runs(block, [&](size_t from, size_t to) { count_literals(in.subspan(from, to - from), block.counts); });
  for (const Run& run : block.runs)
    split_run(run, [&](size_t length) { ++block.counts[kEnd + 1 + length_class(length)]; });
  block.counts[kEnd] = 1;
  block.bits = estimated_bits(block);
  return block;
}

LiteralBlock joined(const LiteralBlock& a, const LiteralBlock& b) {
  LiteralBlock block = a;
  block.end = b.end;
  block.runs.insert(block.runs.end(), b.runs.begin(), b.runs.end());
  for (size_t i = 0; i < kDeflateSymbols; ++i) block.counts[i] += b.counts[i];
  block.counts[kEnd] = 1;
  block.bits = estimated_bits(block);
  return block;
}

size_t exact_bits(const LiteralBlock& block) {
  const BlockCodes codes = codes_of(block);
  return std::min(coded_bits(block, codes, CodeLengths(codes)), static_cast<size_t>(stored_bits(block)));
}

void write_block(Bytes in, const LiteralBlock& block, BitWriter& out) {
  const BlockCodes codes = codes_of(block);
  const CodeLengths lengths(codes);
  if (coded_bits(block, codes, lengths) >= 8 * block.size())
    return write_stored(in.subspan(block.begin, block.size()), out);

  out.put(0b100, 3);
  lengths.write(out);
  size_t at = block.begin;
  for (const Run& run : block.runs) {
    write_literals(in.subspan(at, run.begin - at), codes, out);
    write_run(run, codes, out);
    at = run.end;
  }
  write_literals(in.subspan(at, block.end - at), codes, out);
  out.put(codes[kEnd].bits, codes[kEnd].length);
}

void write_alignment(BitWriter& out) {
  if (out.aligned()) return;
  out.put(0, 3);
  out.align();
  out.put(0xffff0000, 32);
}

void write_end(BitWriter& out) {
  out.put(0b011, 10);  // the fixed end-of-block code is 7 zeros
  out.align();
}

}  // namespace codecfs::filters::codecs
