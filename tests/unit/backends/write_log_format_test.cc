// The bytes of the log are a format: these stay as they are as long as its version is 1.

#include "backends/hdf5/write_log_format.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string_view>

#include "base/endian.h"

namespace codecfs {
namespace {

using namespace hdf5;

Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(WriteLogFormat, ChecksumIsThatOfXz) {
  EXPECT_EQ(continue_checksum(0, bytes_of("123456789")), 0x995DC9BBDF1939FAU);  // the check value of CRC-64/XZ
  EXPECT_EQ(continue_checksum(continue_checksum(0, bytes_of("1234")), bytes_of("56789")), 0x995DC9BBDF1939FAU);
}

TEST(WriteLogFormat, HeaderIsAsDrawn) {
  const LogHeader header{
      .salt = 1, .source = {.device = 2, .inode = 3, .size = 4, .mtime = -5, .head = 6}, .checkpoint = 7};
  const HeaderBytes bytes = encode_header(header);
  EXPECT_EQ(std::memcmp(bytes.data(), "CODECFSW\1\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0\2", 25), 0);
  const uint64_t fields[] = {1, 2, 3, 4, uint64_t(-5), 6, 7, 0};
  for (size_t i = 0; i < std::size(fields); ++i) EXPECT_EQ(load_le<uint64_t>(bytes.data() + 16 + 8 * i), fields[i]);
  EXPECT_EQ(load_le<uint64_t>(bytes.data() + 504), continue_checksum(0, Bytes(bytes).first(504)));

  const auto decoded = decode_header(bytes, "log");
  ASSERT_TRUE(decoded && *decoded);
  EXPECT_EQ((*decoded)->salt, header.salt);
  EXPECT_EQ((*decoded)->source, header.source);
  EXPECT_EQ((*decoded)->checkpoint, header.checkpoint);
}

TEST(WriteLogFormat, FrameIsAsDrawn) {
  uint64_t checksum = first_checksum(9);
  const uint64_t before = checksum;
  const Bytes payload = bytes_of("payload");
  const Frame frame{.kind = FrameKind::data, .sequence = 3, .offset = 1000, .length = payload.size()};
  const FrameBytes bytes = encode_frame(frame, 9, payload, checksum);
  const uint64_t fields[] = {1, 3, 9, 1000, 7, checksum};
  for (size_t i = 0; i < std::size(fields); ++i) EXPECT_EQ(load_le<uint64_t>(bytes.data() + 8 * i), fields[i]);
  EXPECT_EQ(checksum, continue_checksum(continue_checksum(before, Bytes(bytes).first(40)), payload));

  ASSERT_TRUE(decode_frame(bytes, 9, 3));
  EXPECT_FALSE(decode_frame(bytes, 8, 3)) << "another generation";
  EXPECT_FALSE(decode_frame(bytes, 9, 4)) << "another place";
}

TEST(WriteLogFormat, FramesThatCannotBeAreRefused) {
  const auto decodes = [](FrameKind kind, uint64_t offset, uint64_t length) {
    uint64_t checksum = 0;
    const Frame frame{.kind = kind, .sequence = 1, .offset = offset, .length = length};
    return decode_frame(encode_frame(frame, 1, {}, checksum), 1, 1).has_value();
  };
  EXPECT_TRUE(decodes(FrameKind::data, 0, INT64_MAX));
  EXPECT_FALSE(decodes(FrameKind::data, 1, INT64_MAX));
  EXPECT_FALSE(decodes(FrameKind::data, UINT64_MAX, 1));
  EXPECT_FALSE(decodes(FrameKind::data, 0, 0));
  EXPECT_FALSE(decodes(FrameKind::size, uint64_t{INT64_MAX} + 1, 0));
  EXPECT_FALSE(decodes(FrameKind::commit, 0, 1));
  EXPECT_FALSE(decodes(FrameKind{0}, 0, 0));
  EXPECT_FALSE(decodes(FrameKind{4}, 0, 0));
}

TEST(WriteLogFormat, NameOfTheLog) { EXPECT_EQ(log_name_for("data.h5"), ".data.h5.codecfs-wal"); }

}  // namespace
}  // namespace codecfs
