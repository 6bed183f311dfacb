// Images: their structure, and their pixels.

#include "commands/overview/png.h"

#include <gtest/gtest.h>
#include <libdeflate.h>

#include <map>

#include "base/endian.h"

namespace codecfs::commands::overview {
namespace {

/// The chunks by their types, whose checksums are right.
std::map<std::string, std::string> chunks_of(const std::string& png) {
  std::map<std::string, std::string> chunks;
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  for (size_t at = 8; at + 12 <= png.size();) {
    const auto* const data = reinterpret_cast<const std::byte*>(png.data());
    const size_t size = load_be<uint32_t>(data + at);
    EXPECT_EQ(load_be<uint32_t>(data + at + 8 + size), libdeflate_crc32(0, png.data() + at + 4, size + 4));
    chunks[png.substr(at + 4, 4)] = png.substr(at + 8, size);
    at += size + 12;
  }
  return chunks;
}

std::string inflated(const std::string& stream, size_t size) {
  std::string data(size, '\0');
  size_t written = 0;
  libdeflate_decompressor* const decompressor = libdeflate_alloc_decompressor();
  EXPECT_EQ(libdeflate_zlib_decompress(decompressor, stream.data(), stream.size(), data.data(), size, &written),
            LIBDEFLATE_SUCCESS);
  libdeflate_free_decompressor(decompressor);
  EXPECT_EQ(written, size);
  return data;
}

TEST(OverviewPng, OfAPalette) {
  const std::vector<Colour> palette{{1, 2, 3}, {4, 5, 6}, {}};
  const std::vector<uint8_t> indices{0, 1, 2, 2, 1, 0};
  auto chunks = chunks_of(palette_png(3, 2, palette, indices));
  EXPECT_EQ(chunks["IHDR"], std::string("\0\0\0\3\0\0\0\2\x08\x03\0\0\0", 13));
  EXPECT_EQ(chunks["PLTE"], std::string("\1\2\3\4\5\6\0\0\0", 9));
  EXPECT_EQ(chunks["tRNS"], std::string("\xff\xff\0", 3));
  EXPECT_EQ(inflated(chunks["IDAT"], 8), std::string("\0\0\1\2\0\2\1\0", 8));
  EXPECT_TRUE(chunks.contains("IEND"));
}

TEST(OverviewPng, OfColours) {
  const std::vector<uint8_t> pixels{1, 2, 3, 4, 5, 6};
  auto chunks = chunks_of(colour_png(1, 2, pixels));
  EXPECT_EQ(chunks["IHDR"], std::string("\0\0\0\1\0\0\0\2\x08\x02\0\0\0", 13));
  EXPECT_EQ(inflated(chunks["IDAT"], 8), std::string("\0\1\2\3\0\4\5\6", 8));
}

}  // namespace
}  // namespace codecfs::commands::overview
