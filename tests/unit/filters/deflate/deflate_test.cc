// The deflate encoder: other libraries inflate its output, wherever the data has noise, and the output is about as
// large as zlib's.

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "filters/deflate/deflate_stream.h"
#include "filters/deflate/huffman.h"
#include "filters/deflate/literal_block.h"
#include "support/codec_testing.h"

namespace codecfs::filters::codecs {
namespace {

/// One byte for each position.
template <class Byte>
ByteVector bytes_of(size_t size, Byte&& byte) {
  ByteVector bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(byte(i));
  return bytes;
}

ByteVector bell_curve(size_t size, double width, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> values(128, width);
  return bytes_of(size, [&](size_t) { return std::clamp(static_cast<int>(values(random)), 0, 255); });
}

/// Noise with runs of up to 600 equal bytes.
ByteVector with_runs(size_t size, uint32_t seed = 1) {
  ByteVector bytes = random_bytes(size, seed);
  std::mt19937 random(seed + 1);
  for (size_t at = random() % 300; at < size; at += 1 + random() % 2000) {
    const size_t end = std::min(size, at + random() % 600);
    std::fill(bytes.begin() + static_cast<ptrdiff_t>(at), bytes.begin() + static_cast<ptrdiff_t>(end), bytes[at]);
  }
  return bytes;
}

ByteVector repeated(size_t size, size_t period) {
  const ByteVector noise = random_bytes(period, 7);
  return bytes_of(size, [&](size_t i) { return noise[i % period]; });
}

ByteVector text(size_t size) {
  std::mt19937 random(3);
  std::string words;
  while (words.size() < size)
    words += fmt::format("{} of {} is {:.2f}\n", "abc"[random() % 3], random() % 50, 0.125 * (random() % 9));
  return bytes_of(size, [&](size_t i) { return words[i]; });
}

ByteVector ramp(size_t size) {
  return bytes_of(size, [](size_t i) { return i; });
}

/// Measurements of limited precision, as float32, shuffled.
ByteVector shuffled_floats(size_t size, float precision) {
  std::mt19937 random(5);
  std::normal_distribution<float> noise(0, 0.5F);
  const size_t count = size / 4;
  ByteVector bytes(size);
  for (size_t i = 0; i < count; ++i) {
    const float smooth = 280 + 20 * std::sin(static_cast<float>(i) / 9000);
    const float value = std::round((smooth + noise(random)) / precision) * precision;
    for (size_t j = 0; j < 4; ++j)
      bytes[j * count + i] = static_cast<std::byte>(std::bit_cast<uint32_t>(value) >> 8 * j);
  }
  return bytes;
}

struct Kind {
  const char* name;
  std::function<ByteVector(size_t)> make;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"zeros", [](size_t size) { return ByteVector(size); }},
      {"noise", [](size_t size) { return random_bytes(size); }},
      {"narrow noise", [](size_t size) { return bell_curve(size, 5); }},
      {"two values", [](size_t size) { return bell_curve(size, 0.4); }},
      {"noise with runs", [](size_t size) { return with_runs(size); }},
      {"repeated noise", [](size_t size) { return repeated(size, 30000); }},
      {"repeated noise, too far", [](size_t size) { return repeated(size, 40000); }},
      {"ramp", ramp},
      {"text", text},
      {"shuffled floats", [](size_t size) { return shuffled_floats(size, 0.01F); }},
      {"shuffled rounded floats", [](size_t size) { return shuffled_floats(size, 0.125F); }},
      {"shuffled noisy floats", [](size_t size) { return shuffled_floats(size, 1e-6F); }},
  };
  return all;
}

/// Decoded by zlib. `window_bits` as in inflateInit2: 15 for zlib's wrapping, 31 for gzip's, -15 for none.
ByteVector inflated(Bytes encoded, size_t size, int window_bits) {
  ByteVector out(size + 1);
  z_stream stream = {};
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(encoded.data()));
  stream.avail_in = static_cast<uInt>(encoded.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(inflateInit2(&stream, window_bits), Z_OK);
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END) << (stream.msg != nullptr ? stream.msg : "cut short");
  EXPECT_EQ(stream.avail_in, 0) << "bytes after the end";
  out.resize(stream.total_out);
  inflateEnd(&stream);
  return out;
}

/// Decoded by libdeflate.
ByteVector decoded(Bytes encoded, size_t size) {
  auto out = codecs::inflate(encoded, Wrapping::zlib, SizeBound::exactly(size));
  return out ? to_vector(*out) : ByteVector{};
}

void expect_back(const ByteVector& data, int64_t level) {
  const auto encoded = deflate_whole(data, Wrapping::zlib, level);
  ASSERT_TRUE(encoded) << encoded.error().reason;
  EXPECT_TRUE(inflated(encoded->bytes(), data.size(), 15) == data);
  EXPECT_TRUE(decoded(encoded->bytes(), data.size()) == data);
  const auto member = deflate_whole(data, Wrapping::gzip, level);
  ASSERT_TRUE(member) << member.error().reason;
  EXPECT_TRUE(inflated(member->bytes(), data.size(), 31) == data);
}

size_t size_at(Bytes data, int64_t level) {
  const auto encoded = deflate_whole(data, Wrapping::zlib, level);
  return encoded ? encoded->size() : 0;
}

size_t zlib_size(Bytes data, int level) {
  uLongf size = compressBound(data.size());
  std::vector<Bytef> out(size);
  EXPECT_EQ(compress2(out.data(), &size, reinterpret_cast<const Bytef*>(data.data()), data.size(), level), Z_OK);
  return size;
}

TEST(Deflate, OthersInflateIt) {
  for (const Kind& kind : kinds())
    for (const size_t size : {0, 1, 100, 16383, 16384, 16385, 32767, 32768, 65535, 65536, 131071, 300001})
      for (const int64_t level : {0, 4, 9}) {
        SCOPED_TRACE(fmt::format("{} bytes of {} at level {}", size, kind.name, level));
        expect_back(kind.make(size), level);
      }
}

// What debug builds do with every stream.
TEST(Deflate, VerificationFindsChangedBytes) {
  for (const Wrapping wrapping : {Wrapping::zlib, Wrapping::gzip}) {
    ByteVector data = random_bytes(20000);  // in blocks of ours
    append(data, text(3000));               // in blocks of libdeflate
    const auto encoded = deflate_whole(data, wrapping, 4);
    ASSERT_TRUE(encoded);
    EXPECT_TRUE(inflates_to(encoded->bytes(), wrapping, data));
    EXPECT_FALSE(inflates_to(encoded->bytes(), wrapping, Bytes(data).first(data.size() - 1)));
    EXPECT_FALSE(inflates_to(encoded->bytes().first(encoded->size() - 1), wrapping, data));
    ByteVector damaged = to_vector(*encoded);
    for (size_t at = 10; at < 20000; at += 97) {  // from the end of gzip's header; later bits may be padding
      damaged[at] ^= std::byte{1};
      EXPECT_FALSE(inflates_to(damaged, wrapping, data)) << at;
      damaged[at] ^= std::byte{1};
    }
    data.back() ^= std::byte{1};
    EXPECT_FALSE(inflates_to(encoded->bytes(), wrapping, data));
  }
}

TEST(Deflate, NoiseOfAnyLengthBeforeTheRest) {
  const ByteVector noise = random_bytes(140000);
  for (const size_t limit : {16384, 32768, 65535, 65536, 131070})
    for (size_t size = limit - 4; size <= limit + 4; ++size)
      for (const size_t rest : {1, 300, 100000}) {
        SCOPED_TRACE(fmt::format("{} bytes of noise, {} of other data", size, rest));
        ByteVector data(noise.begin(), noise.begin() + static_cast<ptrdiff_t>(size));
        append(data, text(rest));
        expect_back(data, 4);
        EXPECT_LE(size_at(data, 4), zlib_size(data, 4) * 1.01 + 64);
      }
}

TEST(Deflate, NoiseAndOthersByTurns) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    ByteVector data;
    for (int part = 0; part < 8; ++part) append(data, kinds()[random() % kinds().size()].make(random() % 60000));
    expect_back(data, static_cast<int64_t>(1 + seed % 9));
  }
}

TEST(Deflate, AboutAsLargeAsZlib) {
  for (const Kind& kind : kinds())
    for (const size_t size : {65536, 655360})
      for (const int level : {2, 4, 8}) {
        SCOPED_TRACE(fmt::format("{} bytes of {} at level {}", size, kind.name, level));
        const ByteVector data = kind.make(size);
        EXPECT_LE(size_at(data, level), zlib_size(data, level) * 1.03 + 64);
      }
}

// Repetitions in only a part of the data, or far apart, must not be treated as noise.
TEST(Deflate, RepetitionsInNoiseAreFound) {
  for (const size_t length : {4, 6, 8, 16, 40, 200})
    for (const size_t gap : {length * 8, length * 25}) {
      std::mt19937 random(9);
      ByteVector data = random_bytes(600000);
      for (size_t at = 40000; at + length < data.size(); at += gap + length)
        std::copy_n(data.begin() + static_cast<ptrdiff_t>(at - length - random() % 30000), length,
                    data.begin() + static_cast<ptrdiff_t>(at));
      EXPECT_LE(size_at(data, 4), zlib_size(data, 4) * 1.02) << length << " bytes after " << gap;
    }
  const ByteVector noise = random_bytes(262144);
  ByteVector late = noise;
  append(late, repeated(262144, 5000));
  EXPECT_LE(size_at(late, 4), zlib_size(late, 4) * 1.02);
}

TEST(Deflate, NoiseGrowsByTheHeadersOfStoredBlocks) {
  const ByteVector noise = random_bytes(size_t{1} << 20);
  for (const int64_t level : {1, 4, 6, 9}) EXPECT_LE(size_at(noise, level), noise.size() + 2 + 20 * 5 + 2 + 4);
}

// libdeflate's output for these is 58 % of the input; the best code's 55 %.
TEST(Deflate, NoiseOfFewValuesHasTheBestCode) {
  const ByteVector data = bell_curve(size_t{1} << 20, 5);
  std::array<uint32_t, 256> counts = {};
  for (const std::byte byte : data) ++counts[static_cast<uint8_t>(byte)];
  EXPECT_LE(static_cast<double>(size_at(data, 4)), entropy(counts) / 8 * 1.012);
}

// ---------------------------------------------------------------- blocks

TEST(LiteralBlock, ComesBackWhateverItHas) {
  for (const Kind& kind : kinds())
    for (const size_t size : {1, 2, 3, 8, 15, 16, 17, 258, 259, 260, 261, 262, 1000, 65536, 70000}) {
      SCOPED_TRACE(fmt::format("{} bytes of {}", size, kind.name));
      const ByteVector data = kind.make(size);
      ByteVector out(size * 2 + 100);
      BitWriter writer(out.data());
      const LiteralBlock block = make_block(data, 0, size);
      write_block(data, block, writer);
      const size_t bits = exact_bits(block);
      write_alignment(writer);
      EXPECT_LE(writer.written(), bits / 8 + 7 + size / 65535 * 5);
      write_end(writer);
      EXPECT_TRUE(inflated(Bytes(out).first(writer.written()), size, -15) == data);
    }
}

TEST(LiteralBlock, RunsOfEachLengthAtEachPlace) {
  for (size_t length = 1; length < 540; ++length) {
    ByteVector data = random_bytes(900, static_cast<uint32_t>(length));
    std::fill_n(data.begin() + static_cast<ptrdiff_t>(length % 19), length, std::byte{7});
    for (const size_t first : {size_t{0}, length % 19 + 1, length / 2, length}) {
      // Two blocks: a run may continue in the second.
      const LiteralBlock a = make_block(data, 0, first);
      const LiteralBlock b = make_block(data, first, data.size());
      for (const bool join : {false, true}) {
        SCOPED_TRACE(fmt::format("run of {}, {} bytes first, joined {}", length, first, join));
        ByteVector out(2000);
        BitWriter writer(out.data());
        if (join) {
          write_block(data, joined(a, b), writer);
        } else {
          if (first != 0) write_block(data, a, writer);
          write_block(data, b, writer);
        }
        write_end(writer);
        EXPECT_TRUE(inflated(Bytes(out).first(writer.written()), data.size(), -15) == data);
        if (length > 100) {
          EXPECT_LT(writer.written(), data.size() - length + 260);
        }
      }
    }
  }
}

// ---------------------------------------------------------------- codes

void expect_complete(std::span<const uint32_t> counts, unsigned longest) {
  std::array<HuffmanCode, kDeflateSymbols> room;
  const std::span codes(room.data(), counts.size());
  make_huffman_codes(counts, longest, codes);
  uint64_t used = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    EXPECT_EQ(codes[i].length != 0, counts[i] != 0) << i;
    EXPECT_LE(codes[i].length, longest);
    if (codes[i].length != 0) used += uint64_t{1} << (longest - codes[i].length);
    for (size_t j = 0; j < counts.size(); ++j) {
      if (counts[i] > counts[j] && counts[j] != 0) {
        EXPECT_LE(codes[i].length, codes[j].length);
      }
      if (i == j || codes[i].length == 0 || codes[i].length > codes[j].length) continue;
      EXPECT_NE(codes[i].bits, codes[j].bits & ((1U << codes[i].length) - 1)) << "one begins as the other";
    }
  }
  EXPECT_EQ(used, uint64_t{1} << longest);
}

TEST(Huffman, CodesAreCompleteAndNotTooLong) {
  std::vector<uint32_t> fibonacci = {1, 1};
  while (fibonacci.size() < 40) fibonacci.push_back(fibonacci.end()[-1] + fibonacci.end()[-2]);
  for (const unsigned longest : {6U, 7U, 14U, 15U}) expect_complete(fibonacci, longest);
  std::mt19937 random(1);
  for (const size_t symbols : {2, 3, 19, 30, 128, 286})
    for (int round = 0; round < 20; ++round) {
      std::vector<uint32_t> counts(symbols);
      for (uint32_t& count : counts) count = random() >> random() % 32;
      counts[0] = counts[symbols - 1] = 1;
      expect_complete(counts, 14);
    }
  expect_complete(std::vector<uint32_t>(128, 5), 7);
}

TEST(Huffman, CodesAreTheShortest) {
  const std::vector<uint32_t> counts = {45, 13, 12, 16, 9, 5, 0};
  std::array<HuffmanCode, 7> codes;
  make_huffman_codes(counts, 15, codes);
  size_t bits = 0;
  for (size_t i = 0; i < counts.size(); ++i) bits += counts[i] * codes[i].length;
  EXPECT_EQ(bits, 224);
}

}  // namespace
}  // namespace codecfs::filters::codecs
