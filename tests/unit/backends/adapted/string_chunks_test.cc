// Strings of variable length and of UTF-32 become strings of fixed length, or an error: none is cut.

#include "backends/adapted/string_chunks.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

#include "model/json.h"
#include "support/memory_source.h"
#include "support/vlen_testing.h"

namespace codecfs::adapted {
namespace {

using namespace std::string_literals;

Variable vlen(const char* codec = "vlen-utf8") {
  Variable variable;
  variable.type = {TypeKind::object, ByteOrder::none, 0, {}, {}};
  variable.object_codec = Json{{"id", codec}};
  return variable;
}
Variable utf32(ByteOrder order, uint64_t characters) {
  Variable variable;
  variable.type = {TypeKind::unicode, order, 4 * characters, {}, {}};
  return variable;
}

std::string fixed(const Variable& variable, std::string_view chunk, uint64_t elements, uint64_t length) {
  const Result<Buffer> made = fixed_strings(variable, bytes_of(chunk), elements, length);
  if (!made) return fmt::format("error {}", made.error().code);
  return text_of(made->bytes());
}
const std::string kNotFixed = fmt::format("error {}", EIO);

TEST(StringChunks, WhatHasStrings) {
  EXPECT_TRUE(has_strings(vlen()));
  EXPECT_TRUE(has_strings(utf32(ByteOrder::little, 1)));
  EXPECT_FALSE(has_strings(vlen("vlen-bytes")));
  EXPECT_FALSE(has_strings(utf32(ByteOrder::little, 0)));
  EXPECT_FALSE(has_strings(Variable()));
}

TEST(StringChunks, ArePaddedToTheLongest) {
  const std::string chunk = vlen_chunk({"a", "", "bü", "日"});
  EXPECT_EQ(longest_string(vlen(), bytes_of(chunk), 4), 3U);
  EXPECT_EQ(fixed(vlen(), chunk, 4, 3), "a\0\0\0\0\0bü日"s);
  EXPECT_EQ(fixed(vlen(), chunk, 4, 4), "a\0\0\0\0\0\0\0bü\0日\0"s);
  EXPECT_EQ(longest_string(vlen(), bytes_of(vlen_chunk({})), 0), 0U);
}

TEST(StringChunks, Utf32BecomesUtf8) {
  const std::string little = "a\0\0\0\0\0\0\0\xfc\0\0\0\x00\xf6\x01\0"s;
  const std::string big = "\0\0\0a\0\0\0\0\0\0\0\xfc\0\x01\xf6\x00"s;
  for (const auto& [order, chunk] : {std::pair(ByteOrder::little, little), std::pair(ByteOrder::big, big)}) {
    EXPECT_EQ(longest_string(utf32(order, 2), bytes_of(chunk), 2), 6U);
    EXPECT_EQ(fixed(utf32(order, 2), chunk, 2, 6), "a\0\0\0\0\0ü😀"s);
  }
  EXPECT_EQ(fixed(utf32(ByteOrder::little, 1), "\0\xd8\0\0"s, 1, 9), kNotFixed) << "a surrogate";
  EXPECT_EQ(fixed(utf32(ByteOrder::little, 1), "\0\0\x11\0"s, 1, 9), kNotFixed);
}

TEST(StringChunks, NoneIsCut) {
  EXPECT_EQ(fixed(vlen(), vlen_chunk({"a", "bbb"}), 2, 2), kNotFixed);
  EXPECT_EQ(fixed(vlen(), vlen_chunk({"a\0"s}), 1, 2), kNotFixed) << "a reader would take the NUL for padding";
  EXPECT_EQ(fixed(vlen(), vlen_chunk({"a\0b"s}), 1, 3), "a\0b"s);
  EXPECT_EQ(fixed(utf32(ByteOrder::little, 1), "\xfc\0\0\0"s, 1, 1), kNotFixed);
}

TEST(StringChunks, DamagedChunksAreRefused) {
  const std::string chunk = vlen_chunk({"a", "bb"});
  for (size_t size = 0; size < chunk.size(); ++size) {
    EXPECT_EQ(fixed(vlen(), chunk.substr(0, size), 2, 2), kNotFixed) << size;
    EXPECT_FALSE(longest_string(vlen(), bytes_of(chunk).first(size), 2)) << size;
  }
  EXPECT_EQ(fixed(vlen(), chunk, 3, 2), kNotFixed);
  EXPECT_EQ(fixed(utf32(ByteOrder::little, 2), chunk.substr(0, 8), 2, 2), kNotFixed);
  EXPECT_EQ(fixed(vlen(), chunk, 2, UINT64_MAX), fmt::format("error {}", ENOMEM));
}

}  // namespace
}  // namespace codecfs::adapted
