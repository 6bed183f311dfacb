// Elements of any byte order become comparable and readable.

#include "commands/elements.h"

#include <gtest/gtest.h>

#include <cstring>

#include "model/json.h"

namespace codecfs::commands {
namespace {

Variable variable_of(const char* dtype) {
  Variable variable;
  variable.type = *parse_dtype(*parse_json(dtype));
  return variable;
}

Buffer buffer_of(std::initializer_list<int> bytes) {
  std::vector<std::byte> all;
  for (const int byte : bytes) all.push_back(static_cast<std::byte>(byte));
  return *Buffer::copy_of(all);
}

std::vector<int> numbers_in(Bytes bytes) {
  std::vector<int> numbers;
  for (const std::byte byte : bytes) numbers.push_back(static_cast<int>(byte));
  return numbers;
}

std::string text_of_first(const char* dtype, std::initializer_list<int> bytes) {
  const Variable variable = variable_of(dtype);
  const Elements elements = *elements_of_chunk(variable, buffer_of(bytes), 1);
  return element_text(variable, elements.bytes.bytes());
}

TEST(Elements, BecomeLittleEndian) {
  const auto converted = [](const char* dtype, std::initializer_list<int> bytes, uint64_t count) {
    return numbers_in(elements_of_chunk(variable_of(dtype), buffer_of(bytes), count)->bytes.bytes());
  };
  EXPECT_EQ(converted(R"(">i2")", {0, 1, 2, 3}, 2), (std::vector{1, 0, 3, 2}));
  EXPECT_EQ(converted(R"("<i2")", {0, 1, 2, 3}, 2), (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(converted(R"(">c8")", {0, 1, 2, 3, 4, 5, 6, 7}, 1), (std::vector{3, 2, 1, 0, 7, 6, 5, 4}));
  EXPECT_EQ(converted(R"(">U2")", {0, 0, 0, 65, 0, 0, 0, 66}, 1), (std::vector{65, 0, 0, 0, 66, 0, 0, 0}));
  EXPECT_EQ(converted(R"([["a", "|u1"], ["b", ">i2", [2]], ["c", [["d", ">i2"]]]])", {9, 0, 1, 2, 3, 4, 5}, 1),
            (std::vector{9, 1, 0, 3, 2, 5, 4}));
}

TEST(Elements, OfVariableLengthAreSplit) {
  Variable variable = variable_of(R"("|O")");
  variable.object_codec = Json{{"id", "vlen-utf8"}};
  ASSERT_TRUE(has_comparable_elements(variable));
  const auto split = [&](std::initializer_list<int> bytes, uint64_t count) {
    return elements_of_chunk(variable, buffer_of(bytes), count);
  };
  const auto elements = split({2, 0, 0, 0, 1, 0, 0, 0, 'a', 0, 0, 0, 0}, 2);
  ASSERT_TRUE(elements);
  ASSERT_EQ(elements->items.size(), 2U);
  EXPECT_EQ(element_text(variable, elements->items[0]), "\"a\"");
  EXPECT_EQ(element_text(variable, elements->items[1]), "\"\"");
  // Another count, a length beyond the end, a count that is cut.
  EXPECT_FALSE(split({2, 0, 0, 0, 1, 0, 0, 0, 'a', 0, 0, 0, 0}, 3));
  EXPECT_FALSE(split({1, 0, 0, 0, 2, 0, 0, 0, 'a'}, 1));
  EXPECT_FALSE(split({1, 0, 0, 0, 255, 255, 255, 255, 'a'}, 1));
  EXPECT_FALSE(split({1, 0}, 1));
  EXPECT_FALSE(split({255, 255, 255, 255}, 0xFFFFFFFF));
}

TEST(Elements, ThatAreEncodedTogetherAreNotComparable) {
  Variable variable = variable_of(R"("|O")");
  for (const char* id : {"json2", "pickle"}) {
    variable.object_codec = Json{{"id", id}};
    EXPECT_FALSE(has_comparable_elements(variable));
  }
  variable.object_codec = Json{{"id", "vlen-bytes"}};
  EXPECT_TRUE(has_comparable_elements(variable));
  EXPECT_TRUE(has_comparable_elements(variable_of(R"("<f4")")));
}

TEST(Elements, TooFewAreDamage) {
  EXPECT_FALSE(elements_of_chunk(variable_of(R"("<i4")"), buffer_of({1, 2, 3, 4}), 2));
}

TEST(Elements, Fill) {
  Variable variable = variable_of(R"(">i2")");
  EXPECT_EQ(numbers_in(fill_element(variable)), (std::vector{0, 0}));
  variable.fill = {std::byte{1}, std::byte{2}};
  EXPECT_EQ(numbers_in(fill_element(variable)), (std::vector{2, 1}));
  Variable text = variable_of(R"("|O")");
  EXPECT_TRUE(fill_element(text).empty());
  text.fill = {std::byte{1}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{'x'}};
  EXPECT_EQ(numbers_in(fill_element(text)), (std::vector<int>{'x'}));
}

TEST(Elements, AreShownReadably) {
  EXPECT_EQ(text_of_first(R"(">i2")", {1, 2}), "258");
  EXPECT_EQ(text_of_first(R"("|b1")", {1}), "true");
  EXPECT_EQ(text_of_first(R"("<f4")", {0, 0, 0xC0, 0x7F}), "NaN");
  EXPECT_EQ(text_of_first(R"("|S4")", {'a', 'b', 0, 0}), "\"ab\"");
  EXPECT_EQ(text_of_first(R"("|S3")", {'a', 0x1b, 'b'}), "\"a?b\"");
  EXPECT_EQ(text_of_first(R"(">U1")", {0, 0, 0, 'x'}), "\"x\"");
  EXPECT_EQ(text_of_first(R"("|V2")", {0, 255}), "0x00ff");
  EXPECT_EQ(text_of_first(R"([["a", "|u1"], ["b", ">i2", [2]]])", {9, 0, 1, 0, 3}), "{a: 9, b: [1, 3]}");
}

}  // namespace
}  // namespace codecfs::commands
