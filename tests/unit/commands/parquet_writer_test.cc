// Parquet files, decoded by the specification: the footer as any struct of Thrift's compact protocol.

#include "commands/parquet_writer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>

#include "filters/codecs/zstd_frames.h"
#include "model/json.h"
#include "support/memory_source.h"

namespace codecfs::commands {
namespace {

uint64_t little_endian(std::string_view bytes, size_t at, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) value |= uint64_t{static_cast<unsigned char>(bytes.at(at + i))} << (8 * i);
  return value;
}

/// Fields by their numbers; strings as such, structs as objects, lists as arrays.
class ThriftReader {
 public:
  explicit ThriftReader(std::string_view bytes, size_t at = 0) : bytes_(bytes), at_(at) {}

  Json read_struct() {
    Json found = Json::object();
    for (int field = 0;;) {
      const int header = byte();
      if (header == 0) return found;
      EXPECT_NE(header >> 4, 0) << "fields in order have short headers";
      field += header >> 4;
      found[std::to_string(field)] = value(header & 15);
    }
  }
  [[nodiscard]] size_t at() const { return at_; }

 private:
  int byte() { return static_cast<unsigned char>(bytes_.at(at_++)); }
  uint64_t varint() {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const int next = byte();
      value |= uint64_t{static_cast<unsigned>(next & 0x7f)} << shift;
      if (next < 0x80) return value;
    }
  }
  Json value(int type) {
    switch (type) {
      case 5:
      case 6: {
        const uint64_t zigzag = varint();
        return static_cast<int64_t>(zigzag >> 1) ^ -static_cast<int64_t>(zigzag & 1);
      }
      case 8: {
        const size_t size = varint();
        at_ += size;
        return std::string(bytes_.substr(at_ - size, size));
      }
      case 9: {
        const int header = byte();
        const uint64_t size = header >> 4 == 15 ? varint() : static_cast<uint64_t>(header >> 4);
        Json items = Json::array();
        for (uint64_t i = 0; i < size; ++i) items.push_back(value(header & 15));
        return items;
      }
      case 12: return read_struct();
      default: throw std::runtime_error("unexpected type " + std::to_string(type));
    }
  }

  std::string_view bytes_;
  size_t at_;
};

class ParquetWriterTest : public testing::Test {
 protected:
  void finish(ParquetWriter& writer) {
    file = writer.finish();
    ASSERT_TRUE(file.starts_with("PAR1") && file.ends_with("PAR1"));
    const size_t length = little_endian(file, file.size() - 8, 4);
    ThriftReader reader(file, file.size() - 8 - length);
    footer = reader.read_struct();
    EXPECT_EQ(reader.at(), file.size() - 8) << "the footer has the length that it says";
  }
  [[nodiscard]] const Json& column(size_t index) const { return footer["4"][0]["1"][index]["3"]; }
  /// The header and the content of a page.
  std::pair<Json, std::string> page(const Json& offset) {
    ThriftReader reader(file, offset.get<size_t>());
    const Json header = reader.read_struct();
    const std::string_view content = std::string_view(file).substr(reader.at(), header["3"].get<size_t>());
    std::string plain(header["2"].get<size_t>(), '\0');
    const auto size = filters::codecs::zstd_decode(bytes_of(content), std::as_writable_bytes(std::span(plain)));
    EXPECT_TRUE(size && *size && **size == plain.size());
    return {header, plain};
  }

  std::string file;
  Json footer;
};

TEST_F(ParquetWriterTest, NumbersArePlain) {
  ParquetWriter writer(3);
  const std::vector<int64_t> values{1, -2, int64_t{1} << 40};
  ASSERT_TRUE(writer.add_numbers("offset", values));
  finish(writer);
  EXPECT_EQ(footer["1"], 1);
  EXPECT_EQ(footer["3"], 3) << "rows";
  EXPECT_EQ(footer["2"], *parse_json(R"([{"4": "schema", "5": 1}, {"1": 2, "3": 0, "4": "offset"}])"));
  EXPECT_EQ(column(0)["3"], *parse_json(R"(["offset"])"));
  EXPECT_EQ(column(0)["12"]["3"], 0) << "nulls";
  const auto [header, content] = page(column(0)["9"]);
  EXPECT_EQ(header["5"], *parse_json(R"({"1": 3, "2": 0, "3": 3, "4": 3})"));
  ASSERT_EQ(content.size(), 24U);
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(static_cast<int64_t>(little_endian(content, 8 * i, 8)), values[i]);
}

TEST_F(ParquetWriterTest, ATextIsStoredOnce) {
  ParquetWriter writer(200);
  std::vector<bool> is_set(200, true);
  is_set[0] = is_set[199] = false;
  ASSERT_TRUE(writer.add_text("path", "s3://a/b", is_set));
  finish(writer);
  EXPECT_EQ(footer["2"][1], *parse_json(R"({"1": 6, "3": 1, "4": "path", "6": 0})"));
  EXPECT_EQ(column(0)["12"]["3"], 2) << "nulls";
  EXPECT_EQ(page(column(0)["11"]).second, std::string("\x08\0\0\0s3://a/b", 12));
  const auto [header, content] = page(column(0)["9"]);
  EXPECT_EQ(header["5"]["1"], 200);
  EXPECT_EQ(header["5"]["2"], 8) << "RLE_DICTIONARY";
  // Levels: their length; a run of 1 null, of 198 values, of 1 null. Then the bits of an index, and a run of 198 of it.
  EXPECT_EQ(content, std::string("\x07\0\0\0\x02\0\x8c\x03\x01\x02\0", 11) + std::string("\x01\x8c\x03\0", 4));
}

TEST_F(ParquetWriterTest, BytesMayBeNullAndEmpty) {
  ParquetWriter writer(5);
  ASSERT_TRUE(writer.add_bytes("raw", std::vector<ParquetWriter::Cell>{{1, "ab"}, {2, ""}, {4, "c"}}));
  ASSERT_TRUE(writer.add_bytes("none", {}));
  finish(writer);
  EXPECT_EQ(column(0)["12"]["3"], 2);
  EXPECT_EQ(page(column(0)["9"]).second, std::string("\x08\0\0\0\x02\0\x04\x01\x02\0\x02\x01", 12) +
                                             std::string("\x02\0\0\0ab\0\0\0\0\x01\0\0\0c", 15));
  EXPECT_EQ(column(1)["12"]["3"], 5);
  EXPECT_EQ(page(column(1)["9"]).second, std::string("\x02\0\0\0\x0a\0", 6));
}

TEST_F(ParquetWriterTest, TheFooterNamesPlacesAndSizes) {
  ParquetWriter writer(1);
  ASSERT_TRUE(writer.add_text("a", "t", {true}));
  ASSERT_TRUE(writer.add_numbers("b", std::vector<int64_t>{7}));
  finish(writer);
  EXPECT_EQ(footer["4"][0]["1"][0]["2"], 4) << "the first page follows the magic bytes";
  EXPECT_EQ(column(0)["11"], 4);
  EXPECT_EQ(column(1)["9"], 4 + column(0)["7"].get<int>()) << "the columns follow each other";
  const size_t length = little_endian(file, file.size() - 8, 4);
  EXPECT_EQ(column(1)["9"].get<size_t>() + column(1)["7"].get<size_t>(), file.size() - 8 - length);
  EXPECT_EQ(footer["4"][0]["2"].get<int>(), column(0)["6"].get<int>() + column(1)["6"].get<int>());
  EXPECT_EQ(column(0)["4"], 6) << "zstd";
  EXPECT_EQ(column(0)["2"], *parse_json("[0, 3, 8]"));
}

}  // namespace
}  // namespace codecfs::commands
