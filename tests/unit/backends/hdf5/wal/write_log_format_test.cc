// The byte format of the log, which must not change while its version is 2.

#include "backends/hdf5/wal/write_log_format.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string_view>

#include "base/endian.h"
#include "base/utf8.h"

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
      .salt = 1, .source = {.device = 2, .inode = 3, .size = 4, .mtime = -5, .head = 6}, .checkpoint = 7, .id = 8};
  const HeaderBytes bytes = encode_header(header);
  EXPECT_EQ(std::memcmp(bytes.data(), "CODECFSW\2\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0\2", 25), 0);
  const uint64_t fields[] = {1, 2, 3, 4, uint64_t(-5), 6, 7, 8, 0};
  for (size_t i = 0; i < std::size(fields); ++i) EXPECT_EQ(load_le<uint64_t>(bytes.data() + 16 + 8 * i), fields[i]);
  EXPECT_EQ(load_le<uint64_t>(bytes.data() + 504), continue_checksum(0, Bytes(bytes).first(504)));

  const auto decoded = decode_header(bytes, "log");
  ASSERT_TRUE(decoded && *decoded);
  EXPECT_EQ((*decoded)->salt, header.salt);
  EXPECT_EQ((*decoded)->source, header.source);
  EXPECT_EQ((*decoded)->checkpoint, header.checkpoint);
  EXPECT_EQ((*decoded)->id, header.id);
  EXPECT_EQ((*decoded)->version, 2U);
}

TEST(WriteLogFormat, FrameIsAsDrawn) {
  uint64_t checksum = first_checksum(9);
  const uint64_t before = checksum;
  const Bytes payload = bytes_of("payload");
  const Frame frame{.kind = FrameKind::data, .sequence = 3, .offset = 1000, .length = payload.size()};
  const Bytes replaced = bytes_of("checksum");
  const FrameBytes bytes = encode_frame(frame, 9, replaced, payload, checksum);
  const uint64_t fields[] = {1, 3, 9, 1000, 7, checksum};
  for (size_t i = 0; i < std::size(fields); ++i) EXPECT_EQ(load_le<uint64_t>(bytes.data() + 8 * i), fields[i]);
  const uint64_t of_header = continue_checksum(before, Bytes(bytes).first(40));
  EXPECT_EQ(checksum, continue_checksum(of_header, bytes_of("checksumpayload")));

  ASSERT_TRUE(decode_frame(bytes, 9, 3));
  EXPECT_FALSE(decode_frame(bytes, 8, 3)) << "another generation";
  EXPECT_FALSE(decode_frame(bytes, 9, 4)) << "another place";
}

TEST(WriteLogFormat, FramesThatCannotBeAreRefused) {
  const auto decodes = [](FrameKind kind, uint64_t offset, uint64_t length) {
    uint64_t checksum = 0;
    const Frame frame{.kind = kind, .sequence = 1, .offset = offset, .length = length};
    return decode_frame(encode_frame(frame, 1, {}, {}, checksum), 1, 1).has_value();
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

TEST(WriteLogFormat, PiecesEndAtSectorsAndAtTheEndOfTheSource) {
  const auto pieces = [](uint64_t offset, uint64_t length, uint64_t size) {
    return replaced_pieces({.kind = FrameKind::data, .offset = offset, .length = length}, {.source = {.size = size}});
  };
  EXPECT_EQ(pieces(0, 512, 10'000), 1U);
  EXPECT_EQ(pieces(0, 513, 10'000), 2U);
  EXPECT_EQ(pieces(511, 2, 10'000), 2U);
  EXPECT_EQ(pieces(100, 2000, 10'000), 5U);
  EXPECT_EQ(pieces(100, 2000, 600), 2U);
  EXPECT_EQ(pieces(100, 2000, 512), 1U);
  EXPECT_EQ(pieces(100, 2000, 100), 0U);
  EXPECT_EQ(pieces(0, INT64_MAX, 0), 0U);
  EXPECT_EQ(replaced_pieces({.kind = FrameKind::size, .offset = 1}, {.source = {.size = 9}}), 0U);
  EXPECT_EQ(replaced_pieces({.kind = FrameKind::data, .length = 1}, {.source = {.size = 9}, .version = 1}), 0U);
}

TEST(WriteLogFormat, NameOfTheLog) {
  EXPECT_EQ(log_name_for("data.h5"), ".data.h5.codecfs-wal");
  EXPECT_EQ(source_name_for(".data.h5.codecfs-wal"), "data.h5");
  EXPECT_EQ(source_name_for("data.h5"), "");
  EXPECT_EQ(source_name_for("..x.codecfs-wal"), ".x");
  const std::string fits(242, 'n');
  EXPECT_EQ(log_name_for(fits), "." + fits + ".codecfs-wal");
  EXPECT_EQ(source_name_for(log_name_for(fits)), fits);
  std::set<std::string> names;
  for (size_t size = 243; size <= 255; ++size) {
    std::string name(size, 'n');
    for (const char last : {'a', 'b'}) {
      name.back() = last;
      const std::string log = log_name_for(name);
      EXPECT_LE(log.size(), 255U);
      EXPECT_TRUE(is_log_name(log));
      EXPECT_EQ(source_name_for(log), "") << "it was cut";
      names.insert(log);
    }
  }
  EXPECT_EQ(names.size(), 26U);
  std::string accented;
  for (int i = 0; i < 127; ++i) accented += "\u00e4";
  EXPECT_TRUE(is_utf8(log_name_for(accented)));
  EXPECT_TRUE(is_utf8(log_name_for("x" + accented)));
}

}  // namespace
}  // namespace codecfs
