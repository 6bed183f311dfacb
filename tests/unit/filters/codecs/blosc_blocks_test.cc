// Blosc's library encodes, and decodes the same buffers, damaged ones too.

#include "filters/codecs/blosc_blocks.h"

#include <blosc.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/helpers.h"

namespace codecfs::filters::codecs {
namespace {

struct Settings {
  std::string compressor;
  int level = 5;
  int shuffle = BLOSC_SHUFFLE;
  size_t element = 4;  // bytes
  size_t block = 0;    // bytes, 0 for the library's choice
};

std::vector<char> encode(const std::vector<char>& data, const Settings& settings) {
  std::vector<char> buffer(data.size() + BLOSC_MAX_OVERHEAD);
  const int size = blosc_compress_ctx(settings.level, settings.shuffle, settings.element, data.size(), data.data(),
                                      buffer.data(), buffer.size(), settings.compressor.c_str(), settings.block, 1);
  EXPECT_GT(size, 0);
  buffer.resize(static_cast<size_t>(std::max(size, 0)));
  return buffer;
}

Bytes bytes_of(const std::vector<char>& data) { return std::as_bytes(std::span(data)); }

std::optional<std::vector<char>> decode_with_library(const std::vector<char>& buffer, size_t size) {
  std::vector<char> out(size);
  if (blosc_decompress_ctx(buffer.data(), out.data(), size, 1) != static_cast<int>(size)) return std::nullopt;
  return out;
}

/// None if it is left to the library.
std::optional<std::vector<char>> decode(const std::vector<char>& buffer, size_t size) {
  std::vector<char> out(size, 'x');
  const Result<bool> is_decoded = decode_blosc_blocks(bytes_of(buffer), std::as_writable_bytes(std::span(out)));
  EXPECT_TRUE(is_decoded);
  if (!is_decoded.value_or(false)) return std::nullopt;
  return out;
}

/// Numbers that become smaller, and some that do not.
std::vector<char> data_of(size_t size, std::mt19937& random) {
  std::vector<char> data(size);
  for (size_t i = 0; i < size; ++i)
    data[i] = static_cast<char>(i % 3000 < 600 ? random() : i % 4 == 0 ? random() % 5 : i % 4);
  return data;
}

class BloscBlocks : public testing::TestWithParam<int> {
 protected:
  BloscBlocks() { blosc_set_splitmode(GetParam()); }
  ~BloscBlocks() override { blosc_set_splitmode(BLOSC_FORWARD_COMPAT_SPLIT); }
};

TEST_P(BloscBlocks, UsualBuffersOfTheLibrary) {
  std::mt19937 random(1);
  for (const char* const compressor : {"lz4", "lz4hc", "zstd"})
    for (const int shuffle : {BLOSC_NOSHUFFLE, BLOSC_SHUFFLE})
      for (const size_t element : {1, 2, 3, 4, 7, 8, 16, 17, 255})
        for (const size_t size : {1, 15, 127, 129, 1000, 4096, 70001, 300000})
          for (const size_t block : {0, 300, 4096, 100000}) {
            const std::vector<char> data = data_of(size, random);
            const Settings settings{compressor, size % 2 == 0 ? 1 : 5, shuffle, element, block};
            const std::vector<char> buffer = encode(data, settings);
            const auto theirs = decode_with_library(buffer, size);
            ASSERT_TRUE(theirs == data || GetParam() == BLOSC_ALWAYS_SPLIT) << "it splits what it cannot join";
            ASSERT_EQ(decode(buffer, size), theirs) << compressor << ", shuffle " << shuffle << ", element " << element
                                                    << ", " << size << " bytes, block " << block;
          }
}

TEST_P(BloscBlocks, CopiedBuffers) {
  std::mt19937 random(2);
  std::vector<char> data(5000);
  std::ranges::generate(data, [&] { return static_cast<char>(random()); });
  for (const int level : {0, 5}) EXPECT_EQ(decode(encode(data, {"lz4", level}), data.size()), data);
}

TEST_P(BloscBlocks, OthersAreLeftToTheLibrary) {
  std::mt19937 random(3);
  const std::vector<char> data = data_of(50000, random);
  EXPECT_FALSE(decode(encode(data, {"blosclz"}), data.size()));
  EXPECT_FALSE(decode(encode(data, {"zlib"}), data.size()));
  EXPECT_FALSE(decode(encode(data, {"lz4", 5, BLOSC_BITSHUFFLE}), data.size()));
}

TEST_P(BloscBlocks, DamagedBuffersAreReadAsTheLibraryDoesOrNot) {
  std::mt19937 random(4);
  size_t decoded = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::vector<char> data = data_of(1 + random() % 20000, random);
    Settings settings{i % 2 == 0 ? "lz4" : "zstd"};
    settings.element = 1 + random() % 9;
    settings.block = random() % 3 == 0 ? 0 : 1 + random() % 5000;
    std::vector<char> buffer = encode(data, settings);
    for (unsigned n = 1 + random() % 3; n > 0; --n) {
      const size_t most = random() % 2 == 0 ? buffer.size() : std::min<size_t>(buffer.size(), 60);
      buffer[random() % most] = static_cast<char>(random());
    }
    size_t size = 0;
    uint32_t stored = 0;
    std::memcpy(&stored, buffer.data() + 12, sizeof stored);
    if (stored > buffer.size() || blosc_cbuffer_validate(buffer.data(), stored, &size) != 0 || size > 100000) continue;
    buffer.resize(stored);
    buffer.shrink_to_fit();
    const auto ours = decode(buffer, size);
    if (!ours) continue;
    ++decoded;
    ASSERT_EQ(ours, decode_with_library(buffer, size)) << i;
  }
  EXPECT_GT(decoded, 300U);
}

/// Two threads, which take part in each piece of work.
class TwoHelpers : public Helpers {
 public:
  void help(size_t count, const std::function<void()>& work) override {
    asked_ += count;
    for (size_t i = 0; i < std::min<size_t>(count, 2); ++i) threads_.emplace_back(work);
  }
  [[nodiscard]] size_t asked() const { return asked_; }

 private:
  size_t asked_ = 0;
  std::vector<std::jthread> threads_;
};

TEST_P(BloscBlocks, LargeBuffersOfAllKindsInSeveralThreads) {
  std::mt19937 random(5);
  const std::vector<char> data = data_of((4 << 20) + 240, random);
  for (const char* const compressor : {"lz4", "zstd", "blosclz", "zlib", "snappy"})
    for (const int shuffle : {BLOSC_NOSHUFFLE, BLOSC_SHUFFLE, BLOSC_BITSHUFFLE})
      for (const size_t element : {8, 3})
        for (const size_t block : {0, 60000}) {
          if (blosc_compname_to_compcode(compressor) < 0) continue;
          std::vector<char> buffer = encode(data, {compressor, 1, shuffle, element, block});
          TwoHelpers helpers;
          const Helpers::Scope scope(helpers);
          const auto ours = decode(buffer, data.size());
          // What it cannot read, the library cannot read either, or its blocks have no whole number of elements.
          if (ours) {
            ASSERT_EQ(ours, decode_with_library(buffer, data.size())) << compressor << shuffle << element;
            EXPECT_GT(helpers.asked(), 1) << compressor << shuffle << element;
          } else {
            const bool is_copied = (buffer[2] & BLOSC_MEMCPYED) != 0;
            EXPECT_TRUE(GetParam() == BLOSC_ALWAYS_SPLIT || element == 3 || is_copied)
                << compressor << shuffle << element;
          }
        }
}

TEST_P(BloscBlocks, LargeBuffersThatAreDamaged) {
  std::mt19937 random(6);
  const std::vector<char> data = data_of(4 << 20, random);
  size_t decoded = 0;
  for (int i = 0; i < 30; ++i) {
    const Settings settings{i % 3 == 0 ? "lz4" : i % 3 == 1 ? "zstd" : "blosclz", 1, BLOSC_SHUFFLE, 4, 100000};
    std::vector<char> buffer = encode(data, settings);
    const size_t most = i % 2 == 0 ? buffer.size() - 16 : 300;
    for (int n = 0; n < 3; ++n) buffer[16 + random() % most] = static_cast<char>(random());
    TwoHelpers helpers;
    const Helpers::Scope scope(helpers);
    const auto ours = decode(buffer, data.size());
    if (!ours) continue;
    ++decoded;
    ASSERT_EQ(ours, decode_with_library(buffer, data.size())) << i;
  }
  EXPECT_LT(decoded, 30U);
}

INSTANTIATE_TEST_SUITE_P(SplitModes, BloscBlocks,
                         testing::Values(BLOSC_ALWAYS_SPLIT, BLOSC_NEVER_SPLIT, BLOSC_AUTO_SPLIT,
                                         BLOSC_FORWARD_COMPAT_SPLIT));

}  // namespace
}  // namespace codecfs::filters::codecs
