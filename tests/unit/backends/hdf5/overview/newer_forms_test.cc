// Why libhdf5 does not know a version: a newer HDF5 wrote it, or a byte has changed.

#include "backends/hdf5/overview/newer_forms.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string_view>
#include <vector>

#include "backends/hdf5/format/superblock.h"
#include "backends/hdf5/library/access_recorder.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "base/endian.h"

namespace codecfs::hdf5 {
namespace {

using std::string_literals::operator""s;

constexpr uint64_t kHeaderAt = 96;
constexpr char kUnknownType = '\x60';  // version 6, which no HDF5 reads

std::string number(uint64_t value, size_t size) {
  std::string text(8, '\0');
  store_le(reinterpret_cast<std::byte*>(text.data()), value);
  return text.substr(0, size);
}

std::string checksum(std::string_view text) { return number(lookup3(std::as_bytes(std::span(text))), 4); }

std::string superblock(int version) {
  std::string block = "\x89HDF\r\n\x1a\n"s + static_cast<char>(version) + "\x08\x08\0"s;
  block += number(0, 8) + number(UINT64_MAX, 8) + number(4096, 8) + number(kHeaderAt, 8);
  return block + checksum(block);
}

std::string file_with(std::string_view header, int version = 3) {
  std::string file = superblock(version);
  file.resize(kHeaderAt);
  file += header;
  file.resize(4096);
  return file;
}

std::string message2(char type, std::string_view body) {
  return std::string(1, type) + number(body.size(), 2) + '\0' + std::string(body);
}

std::string header2(const std::string& messages) {
  const std::string header = "OHDR\x02\x01"s + number(messages.size(), 2) + messages;
  return header + checksum(header);
}

std::string header1(char type, std::string body) {
  body.resize((body.size() + 7) / 8 * 8);
  return "\x01\0\x01\0"s + number(1, 4) + number(8 + body.size(), 4) + number(0, 4) + type + '\0' +
         number(body.size(), 2) + number(0, 4) + body;
}

std::string found(const std::string& file, uint64_t address = kHeaderAt) {
  const auto read = [&](uint64_t offset, MutableBytes to) -> Result<size_t> {
    const size_t count = offset < file.size() ? std::min(to.size(), file.size() - offset) : 0;
    if (count > 0) std::memcpy(to.data(), file.data() + offset, count);
    return count;
  };
  return find_newer_form(read, address).value_or("");
}

bool is_newer_superblock(const std::string& file) {
  return find_newer_superblock([&](uint64_t offset, MutableBytes to) -> Result<size_t> {
           const size_t count = offset < file.size() ? std::min(to.size(), file.size() - offset) : 0;
           if (count > 0) std::memcpy(to.data(), file.data() + offset, count);
           return count;
         })
      .has_value();
}

const std::string kNumberType = "\x10\x08\0\0\x08\0\0\0\0\0\x40\0"s;
const std::string kDouble = "\x11\x20\x3f\0\x08\0\0\0\0\0\x40\0\x34\x0b\0\x34\xff\x03\0\0"s;
const std::string kComplex = "\x5b\x01\0\0\x10\0\0\0"s + kDouble;  // of HDF5 2

std::string attribute(const std::string& type) {
  return "\x03\0\x05\0"s + number(type.size(), 2) + number(4, 2) + '\0' + "flag\0"s + type + "\x02\0\0\0"s + "12345678";
}

TEST(NewerFormsTest, AHeaderWithAChecksumIsAsItWasWritten) {
  std::string type = kNumberType;
  EXPECT_EQ(found(file_with(header2(message2(3, type)))), "");
  type[0] = kUnknownType;
  const std::string header = header2(message2(3, type));
  EXPECT_TRUE(found(file_with(header)).starts_with("written by a newer HDF5 (datatype version 6); this codecfs has "))
      << found(file_with(header));
  EXPECT_EQ(found(file_with(header), attributes_of_object(kHeaderAt)), "");
  std::string damaged = header2(message2(3, kNumberType));
  damaged[damaged.find(kNumberType)] = kUnknownType;
  EXPECT_EQ(found(file_with(damaged)), "");
}

TEST(NewerFormsTest, WithoutAChecksumOnlyReleasedFormsAreNewer) {
  std::string type = kNumberType;
  for (const char version : {'\x40', '\x50', kUnknownType, '\x90'}) {
    type[0] = version;
    EXPECT_EQ(found(file_with(header1(3, type))), "") << int{version};
  }
  std::string reference = "\x17\0\0\0\x08\0\0\0"s;
  reference[0] = '\x47';
  EXPECT_EQ(found(file_with(header1(3, reference))), "");
  std::string boolean = "\x18\x02\0\0\x01\0\0\0\x10\x08\0\0\x01\0\0\0\0\0\x08\0"s + "FALSE\0\0\0TRUE\0\0\0\0\0\x01"s;
  boolean[0] = '\x48';
  EXPECT_EQ(found(file_with(header1(3, boolean))), "");
  std::string texts = "\x19\x01\0\0\x10\0\0\0\x10\0\0\0\x01\0\0\0\0\0\x08\0"s;
  texts[0] = '\x49';
  EXPECT_EQ(found(file_with(header1(3, texts))), "");
  if (kNewestDatatype < 5)
    EXPECT_TRUE(found(file_with(header1(3, kComplex))).contains("datatype version 5"));
  else
    EXPECT_EQ(found(file_with(header1(3, kComplex))), "");
}

TEST(NewerFormsTest, AnAttributeIsNamed) {
  std::string type = kNumberType;
  type[0] = kUnknownType;
  const uint64_t address = attributes_of_object(kHeaderAt);
  const std::string file = file_with(header2(message2(0xc, attribute(kNumberType)) + message2(0xc, attribute(type))));
  EXPECT_TRUE(found(file, address).starts_with("attribute \"flag\": written by a newer HDF5 (datatype version 6)"));
  EXPECT_EQ(found(file), "");
  EXPECT_EQ(found(file_with(header2(message2(0xc, attribute(kNumberType)))), address), "");
}

TEST(NewerFormsTest, OtherMessages) {
  EXPECT_TRUE(found(file_with(header2(message2(8, "\x06\x01"s + number(0, 16))))).contains("data layout version 6"));
  EXPECT_EQ(found(file_with(header1(8, "\x06\x01"s + number(0, 8)))), "");
  EXPECT_EQ(found(file_with(header2(message2(8, "\x04\x01"s + number(0, 8))))), "");
  EXPECT_TRUE(found(file_with(header2(message2(1, "\x03\0\0\0"s)))).contains("dataspace version 3"));
}

TEST(NewerFormsTest, SelectionsOfVirtualDatasets) {
  const std::string all = "\x03\0\0\0\x01\0\0\0"s + number(0, 8);
  const auto file_of = [&](int version, bool is_sound) {
    std::string selection = "\x02\0\0\0"s + number(static_cast<uint64_t>(version), 4) + "\x01\x02"s + number(1, 4);
    selection += number(0, 8);
    std::string block = "\0"s + number(1, 8) + "a.h5\0x\0"s + all + selection;
    block += checksum(block);
    if (!is_sound) ++block[12];
    std::string file = file_with(header2(message2(8, "\x04\x03"s + number(2048, 8) + number(1, 4))));
    const std::string heap =
        "GCOL\x01\0\0\0"s + number(1024, 8) + number(1, 2) + number(0, 6) + number(block.size(), 8) + block;
    return file.replace(2048, heap.size(), heap);
  };
  EXPECT_TRUE(found(file_of(7, true)).contains("selection version 7 in a virtual dataset")) << found(file_of(7, true));
  EXPECT_EQ(found(file_of(7, false)), "");
  EXPECT_EQ(found(file_of(2, true)), "");
}

TEST(NewerFormsTest, Superblocks) {
  EXPECT_FALSE(is_newer_superblock(file_with("", 3)));
  EXPECT_TRUE(is_newer_superblock(file_with("", 4)));
  std::string damaged = file_with("", 3);
  damaged[8] = 4;
  EXPECT_FALSE(is_newer_superblock(damaged));
  EXPECT_FALSE(is_newer_superblock(""));
}

TEST(NewerFormsTest, HostileBytesAreReadWithoutHarm) {
  std::string type = kComplex;
  const std::string whole = file_with(header2(message2(3, type) + message2(0xc, attribute(type)) +
                                              message2(8, "\x04\x03"s + number(2048, 8) + number(1, 4)) +
                                              message2(0x15, "\0\0"s + number(2048, 8) + number(2048, 8))));
  for (size_t at = 0; at < 300; ++at) {
    for (const int value : {0, 1, 2, 3, 0x7f, 0x80, 0xff}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(value);
      (void)found(changed);
      (void)found(changed, attributes_of_object(kHeaderAt));
    }
    (void)found(whole.substr(0, at));
  }
}

}  // namespace
}  // namespace codecfs::hdf5
