// zlib streams as gzip members and back: zlib says what both decode to, and damage is found.

#include "filters/core/gzip_frames.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <string>
#include <vector>

namespace codecfs::filters {
namespace {

constexpr int kZlibWindow = 15;
constexpr int kGzipWindow = 15 + 16;

using Chars = std::vector<std::byte>;

Chars deflated(const Chars& data, int window, int level, gz_header* header = nullptr) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, level, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY), Z_OK);
  if (header != nullptr) {
    EXPECT_EQ(deflateSetHeader(&stream, header), Z_OK);
  }
  Chars out(deflateBound(&stream, data.size()) + 100);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

Chars inflated(Bytes data, int window, size_t size) {
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, window), Z_OK);
  Chars out(size + 1);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  EXPECT_EQ(stream.avail_in, 0);
  out.resize(stream.total_out);
  inflateEnd(&stream);
  return out;
}

Chars sample(size_t size) {
  Chars data(size);
  for (size_t i = 0; i < size; ++i) data[i] = static_cast<std::byte>(i % 251 * (i / 1000));
  return data;
}

TEST(GzipFrames, BothWrappingsHoldTheSameData) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{100'000}}) {
    for (const int level : {0, 1, 6, 9}) {
      const Chars data = sample(size);
      const Chars zlib = deflated(data, kZlibWindow, level);
      const auto gzip = gzip_of_zlib(zlib, size);
      ASSERT_TRUE(gzip) << gzip.error().reason;
      EXPECT_EQ(gzip->size(), zlib.size() + kGzipExtra);
      EXPECT_EQ(inflated(gzip->bytes(), kGzipWindow, size), data);
      const auto again = zlib_of_gzip(gzip->bytes(), size);
      ASSERT_TRUE(again) << again.error().reason;
      EXPECT_EQ(inflated(again->bytes(), kZlibWindow, size), data);
      EXPECT_TRUE(std::ranges::equal(again->bytes().subspan(2), Bytes(zlib).subspan(2))) << "not compressed anew";
    }
  }
}

TEST(GzipFrames, OptionalPartsOfAHeaderAreSkipped) {
  const Chars data = sample(5000);
  gz_header header{};
  Bytef name[] = "a name";
  Bytef comment[] = "a comment";
  Bytef extra[] = "extra bytes";
  header.name = name;
  header.comment = comment;
  header.extra = extra;
  header.extra_len = sizeof extra;
  header.hcrc = 1;
  const Chars gzip = deflated(data, kGzipWindow, 6, &header);
  const auto zlib = zlib_of_gzip(gzip, data.size());
  ASSERT_TRUE(zlib);
  EXPECT_EQ(inflated(zlib->bytes(), kZlibWindow, data.size()), data);
}

TEST(GzipFrames, DamageIsFound) {
  const Chars data = sample(300);
  const Chars zlib = deflated(data, kZlibWindow, 6);
  const Chars gzip = deflated(data, kGzipWindow, 6);
  for (const bool is_zlib : {true, false}) {
    const auto convert = [&](Bytes bytes, uint64_t size) {
      return is_zlib ? gzip_of_zlib(bytes, size) : zlib_of_gzip(bytes, size);
    };
    const Chars& good = is_zlib ? zlib : gzip;
    ASSERT_TRUE(convert(good, data.size()));
    for (size_t length = 0; length < good.size(); ++length)
      EXPECT_EQ(convert(Bytes(good).first(length), data.size()).error().code, EIO) << length;
    for (const uint64_t size : {uint64_t{0}, uint64_t{299}, uint64_t{301}, uint64_t{1} << 40})
      EXPECT_EQ(convert(good, size).error().code, EIO);
    for (size_t i = 0; i < good.size(); ++i) {
      if (!is_zlib && i >= 3 && i < 10) continue;  // a flag without meaning, time and system
      if (is_zlib && i < 2) continue;              // another window or level may be as valid
      Chars bad = good;
      bad[i] ^= std::byte{1};
      EXPECT_FALSE(convert(bad, data.size())) << i;
    }
    Chars longer = good;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(convert(longer, data.size()));
    longer.insert(longer.end(), good.begin(), good.end());
    EXPECT_FALSE(convert(longer, data.size())) << "two of them";
  }
}

}  // namespace
}  // namespace codecfs::filters
