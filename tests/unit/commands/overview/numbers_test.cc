// Elements of each type as numbers, and what attributes say about them.

#include "commands/overview/numbers.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <initializer_list>

#include "model/json.h"

namespace codecfs::commands::overview {
namespace {

Variable variable_of(const char* dtype) {
  Variable variable;
  variable.type = *parse_dtype(*parse_json(dtype));
  return variable;
}

double number_of(const char* dtype, std::initializer_list<int> bytes) {
  std::vector<std::byte> element;
  for (const int byte : bytes) element.push_back(static_cast<std::byte>(byte));
  double number = 0;
  to_numbers(variable_of(dtype), element, {&number, 1});
  return number;
}

TEST(OverviewNumbers, OfEachType) {
  EXPECT_EQ(number_of(R"("|i1")", {0xff}), -1);
  EXPECT_EQ(number_of(R"("|u1")", {0xff}), 255);
  EXPECT_EQ(number_of(R"("<i2")", {0x00, 0x80}), -32768);
  EXPECT_EQ(number_of(R"("<u4")", {0xff, 0xff, 0xff, 0xff}), 4294967295.0);
  EXPECT_EQ(number_of(R"("<i8")", {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}), -2);
  EXPECT_EQ(number_of(R"("<f2")", {0x00, 0xc1}), -2.5);
  EXPECT_EQ(number_of(R"("<f4")", {0, 0, 0x20, 0x41}), 10);
  EXPECT_EQ(number_of(R"("|b1")", {1}), 1);
  EXPECT_EQ(number_of(R"("<c8")", {0, 0, 0x40, 0x40, 0, 0, 0x80, 0x40}), 5);  // |3 + 4i|
  EXPECT_EQ(number_of(R"("<M8[s]")", {5, 0, 0, 0, 0, 0, 0, 0}), 5);
  EXPECT_TRUE(std::isnan(number_of(R"("<M8[s]")", {0, 0, 0, 0, 0, 0, 0, 0x80})));
  Variable small = variable_of(R"("|V2")");
  EXPECT_FALSE(has_numbers(small));
  small.zarr3_type = "bfloat16";
  ASSERT_TRUE(has_numbers(small));
  const std::vector<std::byte> element{std::byte{0x80}, std::byte{0x3f}};
  double number = 0;
  to_numbers(small, element, {&number, 1});
  EXPECT_EQ(number, 1);
}

TEST(OverviewNumbers, TextsAndCompoundsHaveNone) {
  for (const char* const dtype : {R"("|S4")", R"("<U2")", R"([["a", "<i4"]])", R"("|O")", R"("<f16")"}) {
    Variable variable = variable_of(R"("|V4")");
    if (const auto type = parse_dtype(*parse_json(dtype))) variable.type = *type;
    EXPECT_FALSE(has_numbers(variable)) << dtype;
  }
}

TEST(OverviewNumbers, PackingAndMissingValues) {
  Variable variable = variable_of(R"("<i2")");
  const std::vector<Attribute> attributes{
      {"scale_factor", 0.5}, {"add_offset", Json{10}},     {"missing_value", Json{7, 8}}, {"_FillValue", -1},
      {"units", "K"},        {"long_name", "temperature"}, {"valid_range", Json{1}}};
  const Conventions says = conventions_of(variable, attributes);
  EXPECT_TRUE(says.is_packed);
  EXPECT_EQ(says.unpacked(4), 12);
  for (const double missing : {7.0, 8.0, -1.0}) EXPECT_TRUE(says.is_missing(missing)) << missing;
  EXPECT_TRUE(says.is_missing(std::nan("")));
  EXPECT_FALSE(says.is_missing(0)) << "a fill value of 0 is a number like others";
  EXPECT_TRUE(says.is_fill(0));
  EXPECT_FALSE(says.is_fill(1));
  EXPECT_EQ(says.units, "K");
  EXPECT_EQ(says.long_name, "temperature");
}

TEST(OverviewNumbers, AttributesOfOtherKindsSayNothing) {
  Variable variable = variable_of(R"("<f4")");
  const std::vector<Attribute> attributes{
      {"scale_factor", "two"}, {"add_offset", Json{1, 2}}, {"units", 3},
      {"flag_values", "x"},    {"_FillValue", Json()},     {"missing_value", "NaN"}};
  const Conventions says = conventions_of(variable, attributes);
  EXPECT_FALSE(says.is_packed);
  EXPECT_EQ(says.unpacked(4), 4);
  EXPECT_TRUE(says.units.empty());
  EXPECT_TRUE(says.flags.empty());
}

TEST(OverviewNumbers, AFillValueMarksMissingDataUnlessItIsZeroOrAByte) {
  Variable variable = variable_of(R"("<i2")");
  variable.fill = {std::byte{5}, std::byte{0}};
  EXPECT_TRUE(conventions_of(variable, {}).is_missing(5));
  variable.fill = {std::byte{0}, std::byte{0}};
  EXPECT_FALSE(conventions_of(variable, {}).is_missing(0));
  variable = variable_of(R"("|u1")");
  variable.fill = {std::byte{255}};
  EXPECT_FALSE(conventions_of(variable, {}).is_missing(255));
  EXPECT_TRUE(conventions_of(variable, {}).is_fill(255));
  variable.is_fill_undefined = true;
  EXPECT_FALSE(conventions_of(variable, {}).is_fill(255));
}

TEST(OverviewNumbers, UnsignedBytesOfNetcdf) {
  Variable variable = variable_of(R"("|i1")");
  variable.fill = {std::byte{0xff}};
  const std::vector<Attribute> attributes{{"_Unsigned", "true"}, {"_FillValue", -1}};
  const Conventions says = conventions_of(variable, attributes);
  EXPECT_EQ(says.unsigned_from, 256);
  EXPECT_TRUE(says.is_missing(255));
  EXPECT_TRUE(says.is_fill(255));
}

TEST(OverviewNumbers, Flags) {
  const std::vector<Attribute> attributes{{"flag_values", Json{0, 2, 4}}, {"flag_meanings", "sea  land"}};
  const std::vector<Flag> flags = conventions_of(variable_of(R"("|i1")"), attributes).flags;
  ASSERT_EQ(flags.size(), 3U);
  EXPECT_EQ(flags[1].value, 2);
  EXPECT_EQ(flags[1].meaning, "land");
  EXPECT_EQ(flags[2].meaning, "");
}

TEST(OverviewNumbers, AsText) {
  EXPECT_EQ(number_text(0), "0");
  EXPECT_EQ(number_text(-0.0), "0");
  EXPECT_EQ(number_text(123456789), "123456789");
  EXPECT_EQ(number_text(1e20), "1e+20");
  EXPECT_EQ(number_text(1.23456789), "1.23457");
  EXPECT_EQ(number_text(std::nan("")), "nan");
  EXPECT_EQ(share_text(0, 9), "none");
  EXPECT_EQ(share_text(9, 9), "all");
  EXPECT_EQ(share_text(1, 8), "12.5 %");
}

}  // namespace
}  // namespace codecfs::commands::overview
