// Messages of object headers: what is read of them, and that no part of one is taken for a whole one.

#include "backends/hdf5/overview/messages.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace codecfs::hdf5 {
namespace {

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

/// All shorter parts are refused, as are those with one other byte, or they are at least read without harm.
template <class Parse>
void expect_all_needed(const std::vector<std::byte>& whole, const Parse& parse) {
  EXPECT_TRUE(parse(Bytes(whole)));
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(parse(Bytes(whole).first(size))) << size;
  for (size_t at = 0; at < whole.size(); ++at) {
    std::vector<std::byte> changed = whole;
    for (const int value : {0, 1, 2, 3, 0x7f, 0x80, 0xff}) {
      changed[at] = static_cast<std::byte>(value);
      (void)parse(Bytes(changed));
    }
  }
}

// A little-endian integer of 4 bytes.
const std::vector<std::byte> kInteger = bytes_of({0x10, 0x08, 0, 0, 4, 0, 0, 0, 0, 0, 32, 0});

std::optional<std::string> no_name(uint32_t) { return std::nullopt; }
std::optional<std::string> some_name(uint32_t) { return "name"; }

TEST(OverviewMessagesTest, Datatypes) {
  expect_all_needed(kInteger, datatype_bytes);
  EXPECT_EQ(datatype_bytes(kInteger), 12);
  // An array of 2 x 3 of them, as of version 3.
  auto array = bytes_of({0x3a, 0, 0, 0, 24, 0, 0, 0, 2, 2, 0, 0, 0, 3, 0, 0, 0});
  array.insert(array.end(), kInteger.begin(), kInteger.end());
  expect_all_needed(array, datatype_bytes);
  // A compound type with one member "a".
  auto compound = bytes_of({0x36, 1, 0, 0, 4, 0, 0, 0, 'a', 0, 0});
  compound.insert(compound.end(), kInteger.begin(), kInteger.end());
  expect_all_needed(compound, datatype_bytes);
  // An enumeration of two names.
  auto enumeration = bytes_of({0x38, 2, 0, 0, 4, 0, 0, 0});
  enumeration.insert(enumeration.end(), kInteger.begin(), kInteger.end());
  for (const auto& part : {bytes_of({'x', 0, 'y', 0}), bytes_of({1, 0, 0, 0, 2, 0, 0, 0})})
    enumeration.insert(enumeration.end(), part.begin(), part.end());
  expect_all_needed(enumeration, datatype_bytes);
}

TEST(OverviewMessagesTest, DatatypesThatAreNestedTooDeep) {
  std::vector<std::byte> deep;
  for (int i = 0; i < 5000; ++i)
    for (const std::byte byte : bytes_of({0x19, 0, 0, 0, 16, 0, 0, 0})) deep.push_back(byte);
  deep.insert(deep.end(), kInteger.begin(), kInteger.end());
  EXPECT_FALSE(datatype_bytes(deep));
}

TEST(OverviewMessagesTest, Dataspaces) {
  const auto space = bytes_of({2, 1, 1, 1, 5, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255});
  expect_all_needed(space, parse_dataspace);
  const auto found = parse_dataspace(space);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->dims, std::vector<uint64_t>{5});
  EXPECT_FALSE(found->most[0]);
  EXPECT_TRUE(parse_dataspace(bytes_of({2, 0, 0, 2}))->is_null);
  // Longer than its maximum; too many elements.
  EXPECT_FALSE(parse_dataspace(bytes_of({2, 1, 1, 1, 5, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0})));
  EXPECT_FALSE(parse_dataspace(bytes_of({2, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 128, 4, 0, 0, 0, 0, 0, 0, 0})));
}

TEST(OverviewMessagesTest, FillValues) {
  const auto set = bytes_of({3, 0x29, 2, 0, 0, 0, 7, 8});
  expect_all_needed(set, parse_fill);
  EXPECT_EQ(parse_fill(set)->value.size(), 2);
  EXPECT_TRUE(parse_fill(bytes_of({3, 0x19}))->is_undefined);
  EXPECT_FALSE(parse_fill(bytes_of({3, 0x05}))->is_written);
  EXPECT_FALSE(parse_fill(bytes_of({3, 0x39, 0, 0, 0, 0})));  // undefined, and with a value
  EXPECT_FALSE(parse_fill(bytes_of({1, 1, 0, 0})));
}

TEST(OverviewMessagesTest, Layouts) {
  const auto contiguous = bytes_of({3, 1, 0, 8, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0});
  expect_all_needed(contiguous, parse_layout);
  EXPECT_EQ(parse_layout(contiguous)->address, 2048);
  const auto chunked = bytes_of({3, 2, 2, 0, 8, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 4, 0, 0, 0});
  expect_all_needed(chunked, parse_layout);
  EXPECT_EQ(parse_layout(chunked)->chunk, std::vector<uint64_t>{10});
  const auto fixed = bytes_of({4, 2, 0, 2, 1, 10, 4, 3, 10, 0, 8, 0, 0, 0, 0, 0, 0});
  expect_all_needed(fixed, parse_layout);
  EXPECT_EQ(parse_layout(fixed)->index, LayoutMessage::Index::fixed_array);
  EXPECT_FALSE(parse_layout(bytes_of({4, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})));                 // virtual
  EXPECT_FALSE(parse_layout(bytes_of({4, 2, 1, 2, 1, 10, 4, 3, 10, 0, 8, 0, 0, 0, 0, 0, 0})));      // raw edge chunks
  EXPECT_FALSE(parse_layout(bytes_of({3, 2, 2, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0})));  // chunks of none
}

TEST(OverviewMessagesTest, Filters) {
  const auto filters = bytes_of({2, 1, 1, 0, 1, 0, 1, 0, 6, 0, 0, 0});
  expect_all_needed(filters, [](Bytes bytes) { return parse_filters(bytes, some_name); });
  const auto found = parse_filters(filters, some_name);
  ASSERT_TRUE(found && found->size() == 1);
  EXPECT_EQ((*found)[0].name, "name");
  EXPECT_EQ((*found)[0].parameters, std::vector<uint32_t>{6});
  EXPECT_TRUE((*found)[0].optional);
  EXPECT_FALSE(parse_filters(filters, no_name));
}

TEST(OverviewMessagesTest, Attributes) {
  auto attribute = bytes_of({3, 0, 2, 0, 12, 0, 4, 0, 0, 'a', 0});
  attribute.insert(attribute.end(), kInteger.begin(), kInteger.end());
  for (const auto& part : {bytes_of({2, 0, 0, 0}), bytes_of({1, 2, 3, 4})})
    attribute.insert(attribute.end(), part.begin(), part.end());
  expect_all_needed(attribute, parse_attribute);
  const auto found = parse_attribute(attribute);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->name, "a");
  EXPECT_EQ(found->data.size(), 4);
  attribute[1] = std::byte{1};  // a committed type
  EXPECT_FALSE(parse_attribute(attribute));
}

}  // namespace
}  // namespace codecfs::hdf5
