// The expected bits and values are ml_dtypes'.

#include "model/small_float.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace codecfs {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
const double kNotANumber = std::numeric_limits<double>::quiet_NaN();

struct SmallFloatCase {
  const char* name;
  std::array<uint32_t, 4> bits;
  std::array<double, 4> values;
};

const SmallFloatCase kSmallFloats[] = {
    {"bfloat16", {0x3e9a, 0xbfda, 0x447a, 0x3ca4}, {0.30078125, -1.703125, 1000.0, 0.02001953125}},
    {"float8_e3m4", {0x13, 0xbb, 0x70, 0x1}, {0.296875, -1.6875, kInfinite, 0.015625}},
    {"float8_e4m3", {0x2a, 0xbe, 0x78, 0xa}, {0.3125, -1.75, kInfinite, 0.01953125}},
    {"float8_e4m3b11fnuz", {0x4a, 0xde, 0x80, 0x2a}, {0.3125, -1.75, kNotANumber, 0.01953125}},
    {"float8_e4m3fn", {0x2a, 0xbe, 0x7f, 0xa}, {0.3125, -1.75, kNotANumber, 0.01953125}},
    {"float8_e4m3fnuz", {0x32, 0xc6, 0x80, 0x12}, {0.3125, -1.75, kNotANumber, 0.01953125}},
    {"float8_e5m2", {0x35, 0xbf, 0x64, 0x25}, {0.3125, -1.75, 1024.0, 0.01953125}},
    {"float8_e5m2fnuz", {0x39, 0xc3, 0x68, 0x29}, {0.3125, -1.75, 1024.0, 0.01953125}},
    {"float6_e2m3fn", {0x2, 0x2e, 0x1f, 0x0}, {0.25, -1.75, 7.5, 0.0}},
    {"float6_e3m2fn", {0x5, 0x2f, 0x1f, 0x0}, {0.3125, -1.75, 28.0, 0.0}},
    {"float4_e2m1fn", {0x1, 0xb, 0x7, 0x0}, {0.5, -1.5, 6.0, 0.0}},
};

TEST(SmallFloat, RoundsAsMlDtypes) {
  constexpr std::array<double, 4> kGiven = {0.3, -1.7, 1000.0, 0.02};
  for (const SmallFloatCase& one : kSmallFloats) {
    const SmallFloat* format = small_float_named(one.name);
    ASSERT_NE(format, nullptr);
    for (size_t i = 0; i < kGiven.size(); ++i) {
      EXPECT_EQ(small_float_bits(*format, kGiven.at(i)), one.bits.at(i)) << one.name << ' ' << kGiven.at(i);
      const double value = small_float_value(*format, one.bits.at(i));
      if (std::isnan(one.values.at(i))) {
        EXPECT_TRUE(std::isnan(value)) << one.name;
      } else {
        EXPECT_EQ(value, one.values.at(i)) << one.name;
      }
    }
  }
  const SmallFloat& exponents = *small_float_named("float8_e8m0fnu");
  EXPECT_EQ(small_float_bits(exponents, 0.3), 0x7dU);
  EXPECT_EQ(small_float_value(exponents, 0x89), 1024.0);
  EXPECT_FALSE(small_float_bits(exponents, -1.0));
}

TEST(SmallFloat, EveryValueComesBack) {
  for (const SmallFloatCase& one : kSmallFloats) {
    const SmallFloat& format = *small_float_named(one.name);
    for (uint32_t bits = 0; bits < 1U << (1 + format.exponent + format.mantissa); ++bits) {
      const double value = small_float_value(format, bits);
      const auto back = small_float_bits(format, value);
      ASSERT_TRUE(back) << one.name << ' ' << bits;
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(small_float_value(format, *back)));
      } else {
        EXPECT_EQ(*back, bits) << one.name;
      }
    }
  }
}

TEST(SmallFloat, NotRepresentable) {
  EXPECT_EQ(small_float_named("float8"), nullptr);
  EXPECT_FALSE(small_float_bits(*small_float_named("float4_e2m1fn"), kNotANumber));
  EXPECT_FALSE(small_float_bits(*small_float_named("float4_e2m1fn"), kInfinite));
}

}  // namespace
}  // namespace codecfs
