// numpy's other names of types: the vectors were made with numpy 1.24 (numpy.dtype(name).str).

#include "model/numpy_type.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "model/json.h"

namespace codecfs {
namespace {

TEST(NumpyType, NamesAreThoseOfNumpy) {
  constexpr std::pair<const char*, const char*> kNames[] = {{"u1", "|u1"},
                                                            {"i4", "<i4"},
                                                            {"=i4", "<i4"},
                                                            {"=u1", "|u1"},
                                                            {"<i4", "<i4"},
                                                            {">i4", ">i4"},
                                                            {"|i4", "<i4"},
                                                            {"b1", "|b1"},
                                                            {"c8", "<c8"},
                                                            {"S10", "|S10"},
                                                            {"U3", "<U3"},
                                                            {"?", "|b1"},
                                                            {"b", "|i1"},
                                                            {"B", "|u1"},
                                                            {"h", "<i2"},
                                                            {"H", "<u2"},
                                                            {"i", "<i4"},
                                                            {"I", "<u4"},
                                                            {"l", "<i8"},
                                                            {"L", "<u8"},
                                                            {"q", "<i8"},
                                                            {"e", "<f2"},
                                                            {"f", "<f4"},
                                                            {"d", "<f8"},
                                                            {"D", "<c16"},
                                                            {">d", ">f8"},
                                                            {"=f", "<f4"},
                                                            {"int32", "<i4"},
                                                            {"uint8", "|u1"},
                                                            {"float16", "<f2"},
                                                            {"float64", "<f8"},
                                                            {"bool", "|b1"},
                                                            {"int", "<i8"},
                                                            {"float", "<f8"},
                                                            {"double", "<f8"},
                                                            {"short", "<i2"},
                                                            {"ubyte", "|u1"},
                                                            {"complex128", "<c16"},
                                                            {"M8[ns]", "<M8[ns]"},
                                                            {"=M8[s]", "<M8[s]"},
                                                            {"datetime64[ns]", "<M8[ns]"},
                                                            {"timedelta64[25s]", "<m8[25s]"}};
  for (const auto& [name, wanted] : kNames) {
    const Result<DataType> type = parse_numpy_type(Json(name));
    ASSERT_TRUE(type) << name;
    EXPECT_EQ(print_dtype(*type), Json(wanted)) << name;
  }
}

TEST(NumpyType, WhatNumpyRefusesIsRefused) {
  for (const char* name : {"", "<", "=", "i3", "=i3", "Int32", "Float64", ">int32", "<float64", "=float64", "w", "B1",
                           "<M8[", "datetime64[q]", "i4 ", "int128"})
    EXPECT_FALSE(parse_numpy_type(Json(name))) << name;
  EXPECT_EQ(parse_numpy_type(Json("i3")).error().reason, parse_dtype(Json("i3")).error().reason);
  EXPECT_FALSE(parse_numpy_type(Json(4)));
}

TEST(NumpyType, SpecialNumbers) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const char* text : {"NaN", "nan", "NAN", "+nan", "-nan"})
    EXPECT_TRUE(std::isnan(parse_numpy_special(text).value_or(0))) << text;
  for (const char* text : {"Infinity", "+Infinity", "inf", "+inf", "INF"})
    EXPECT_EQ(parse_numpy_special(text), kInfinity) << text;
  for (const char* text : {"-Infinity", "-inf", "-INFINITY"}) EXPECT_EQ(parse_numpy_special(text), -kInfinity) << text;
  for (const char* text : {"", "+", "1", "nan1", "infinit", "--inf", " nan"})
    EXPECT_FALSE(parse_numpy_special(text)) << text;
}

}  // namespace
}  // namespace codecfs
