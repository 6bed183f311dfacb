// Data types and fill values of Zarr v3, as zarr-python 3, tensorstore and the specification write them.

#include "model/zarr3_type.h"

#include <gtest/gtest.h>

#include "model/json.h"

namespace codecfs {
namespace {

Json json(std::string_view text) { return parse_json(text).value(); }

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

struct Zarr3TypeCase {
  const char* data_type;
  const char* dtype;       // of numpy
  const char* fill_value;  // of zarr.json
  const char* bytes;       // of an element, in hexadecimal
};

constexpr Zarr3TypeCase kZarr3Types[] = {
    {R"("bool")", R"("|b1")", "true", "01"},
    {R"("int16")", R"("<i2")", "-2", "feff"},
    {R"("uint64")", R"("<u8")", "18446744073709551615", "ffffffffffffffff"},
    {R"("float16")", R"("<f2")", R"("-Infinity")", "00fc"},
    {R"("float32")", R"("<f4")", R"("0x7fc00001")", "0100c07f"},
    {R"("float64")", R"("<f8")", "1.5", "000000000000f83f"},
    {R"("complex64")", R"("<c8")", R"([1.0, "NaN"])", "0000803f0000c07f"},
    {R"({"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}})", R"("<U2")", R"("ä")",
     "e400000000000000"},
    {R"({"name": "null_terminated_bytes", "configuration": {"length_bytes": 3}})", R"("|S3")", R"("YWIA")", "616200"},
    {R"({"name": "raw_bytes", "configuration": {"length_bytes": 3}})", R"("|V3")", R"("AQL/")", "0102ff"},
    {R"({"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 25}})", R"("<M8[25s]")", R"("NaT")",
     "0000000000000080"},
    {R"({"name": "numpy.timedelta64", "configuration": {"unit": "generic", "scale_factor": 1}})", R"("<m8")", "7",
     "0700000000000000"},
    {R"({"name": "struct", "configuration": {"fields": [{"name": "a", "data_type": "int8"}, {"name": "b", "data_type": "uint16"}]}})",
     R"([["a", "|i1"], ["b", "<u2"]])", R"({"a": -1, "b": 258})", "ff0201"},
    {R"({"name": "structured", "configuration": {"fields": [["a", "int8"], ["b", "uint16"]]}})",
     R"([["a", "|i1"], ["b", "<u2"]])", R"("/wIB")", "ff0201"},
    {R"({"name": "structured", "configuration": {"fields": [["a", "int8"], ["b",
         {"name": "structured", "configuration": {"fields": [["c", "int8"], ["d",
         {"name": "raw_bytes", "configuration": {"length_bytes": 1}}]]}}]]}})",
     R"([["a", "|i1"], ["b", [["c", "|i1"], ["d", "|V1"]]]])", R"("AQID")", "010203"},
    {R"("string")", R"("|O")", R"("ab")", "020000006162"},
    {R"("variable_length_bytes")", R"("|O")", R"("YWI=")", "020000006162"},
};

TEST(Zarr3Type, BothDirections) {
  for (const Zarr3TypeCase& one : kZarr3Types) {
    const auto type = parse_zarr3_type(json(one.data_type));
    ASSERT_TRUE(type) << one.data_type << type.error().reason;
    EXPECT_EQ(print_json(print_dtype(type->type)), print_json(json(one.dtype)));
    EXPECT_EQ(print_json(print_zarr3_type(type->type, type->object_codec, type->is_struct).value()),
              print_json(json(one.data_type)));
    const auto fill = zarr3_fill_bytes(*type, json(one.fill_value));
    ASSERT_TRUE(fill) << one.data_type << fill.error().reason;
    EXPECT_EQ(hex(*fill), one.bytes) << one.data_type;
    EXPECT_EQ(print_json(zarr3_fill_json(*type, *fill)), print_json(json(one.fill_value)));
  }
}

TEST(Zarr3Type, FormsThatAreOnlyRead) {
  const auto size = [](const char* text) { return parse_zarr3_type(json(text)).value().type.size; };
  EXPECT_EQ(size(R"("r24")"), 3U);
  EXPECT_EQ(size(R"({"name": "float32"})"), 4U);
  EXPECT_EQ(size(R"("complex_float64")"), 16U);
  EXPECT_EQ(size(R"({"name": "structured", "configuration": {"fields": [["a", "int16"], ["b", "float64"]]}})"), 10U);
  EXPECT_EQ(parse_zarr3_type(json(R"("bytes")")).value().object_codec, json(R"({"id": "vlen-bytes"})"));
  const Zarr3Type fields =
      parse_zarr3_type(json(R"({"name": "structured", "configuration": {"fields": [["a", "int8"], ["b", "int8"]]}})"))
          .value();
  EXPECT_EQ(hex(zarr3_fill_bytes(fields, "AQI=").value()), "0102");
  EXPECT_EQ(hex(zarr3_fill_bytes(fields, json(R"({"b": 2, "a": 1})")).value()), "0102");
  const Zarr3Type bare = parse_zarr3_type(json(R"([["a", "int8"], ["b", "int8"]])")).value();
  EXPECT_EQ(bare.type, fields.type);
  EXPECT_EQ(hex(zarr3_fill_bytes(parse_zarr3_type("r24").value(), json("[1, 2, 255]")).value()), "0102ff");
}

TEST(Zarr3Type, BigEndianCompoundsHaveTheFormWhoseFillValueIsClear) {
  const char* const form = R"({"name": "struct", "configuration": {"fields": [{"name": "a", "data_type": "int16"}]}})";
  Zarr3Type type = parse_zarr3_type(json(form)).value();
  type.is_struct = false;
  type.type = with_byte_order(type.type, ByteOrder::big);
  EXPECT_EQ(print_json(print_zarr3_type(type.type, {}).value()), print_json(json(form)));
  const auto fill = zarr3_fill_bytes(type, json(R"({"a": 258})"));
  ASSERT_TRUE(fill);
  EXPECT_EQ(hex(*fill), "0102");
  EXPECT_EQ(zarr3_fill_json(type, *fill), json(R"({"a": 258})"));
}

TEST(Zarr3Type, TypesThatNumpyLacks) {
  const struct {
    const char* name;
    const char* dtype;
    const char* fill_value;
    const char* bytes;
  } cases[] = {{"bfloat16", "|V2", "1.5", "c03f"},
               {"bfloat16", "|V2", R"("0x7fc1")", "c17f"},
               {"float8_e4m3fn", "|V1", "448", "7e"},
               {"float8_e5m2", "|V1", R"("Infinity")", "7c"},
               {"int4", "|i1", "-8", "f8"},
               {"uint4", "|u1", "15", "0f"},
               {"int2", "|i1", "1", "01"},
               {"complex_bfloat16", "|V4", "[1, 0]", "803f0000"},
               {"complex_float16", "|V4", "[1, 2]", "003c0040"}};
  for (const auto& [name, dtype, fill_value, bytes] : cases) {
    const Zarr3Type type = parse_zarr3_type(std::string(name)).value();
    EXPECT_EQ(type.name, name);
    EXPECT_EQ(print_dtype(type.type), dtype);
    const auto fill = zarr3_fill_bytes(type, json(fill_value));
    ASSERT_TRUE(fill) << name;
    EXPECT_EQ(hex(*fill), bytes) << name;
    EXPECT_EQ(hex(zarr3_fill_bytes(type, zarr3_fill_json(type, *fill)).value()), bytes) << name;
  }
}

TEST(Zarr3Type, Refused) {
  for (const char* text : {"1", "null", "{}", R"({"name": 1})", R"({"name": "raw_bytes"})",
                           R"({"name": "raw_bytes", "configuration": {"length_bytes": -1}})",
                           R"({"name": "raw_bytes", "configuration": {"length_bytes": 99999999999}})",
                           R"({"name": "fixed_length_utf32", "configuration": {"length_bytes": 3}})",
                           R"({"name": "numpy.datetime64", "configuration": {"unit": "x"}})",
                           R"({"name": "struct", "configuration": {"fields": []}})",
                           R"({"name": "struct", "configuration": {"fields": [["a", "int8"], ["a", "int8"]]}})"})
    EXPECT_EQ(parse_zarr3_type(json(text)).error().code, EINVAL) << text;
  for (const char* text : {R"("int128")", R"("r0")", R"("r12")", R"({"name": "x", "configuration": {}})",
                           R"({"name": "int8", "configuration": {"x": 1}})",
                           R"({"name": "struct", "configuration": {"fields": [["a", "string"]]}})"})
    EXPECT_EQ(parse_zarr3_type(json(text)).error().code, EOPNOTSUPP) << text;
  std::string nested = R"("int8")";
  for (int i = 0; i < 40; ++i) nested = R"({"name": "struct", "configuration": {"fields": [["a", )" + nested + "]]}}";
  EXPECT_FALSE(parse_json(nested) && parse_zarr3_type(json(nested)));

  const auto fill_code = [](const char* type, const char* value) {
    return zarr3_fill_bytes(parse_zarr3_type(json(type)).value(), json(value)).error().code;
  };
  EXPECT_EQ(fill_code(R"("int8")", "128"), EINVAL);
  EXPECT_EQ(fill_code(R"("int8")", "null"), EINVAL);
  EXPECT_EQ(fill_code(R"("float32")", R"("0x7fc0")"), EINVAL);
  EXPECT_EQ(fill_code(R"("float32")", R"("many")"), EINVAL);
  EXPECT_EQ(fill_code(R"("int4")", "8"), EINVAL);
  EXPECT_EQ(fill_code(R"("float4_e2m1fn")", R"("NaN")"), EINVAL);
  EXPECT_EQ(fill_code(R"("string")", "0"), EINVAL);
  EXPECT_EQ(fill_code(R"({"name": "raw_bytes", "configuration": {"length_bytes": 2}})", "[1, 2, 3]"), EINVAL);
  EXPECT_EQ(fill_code(R"({"name": "raw_bytes", "configuration": {"length_bytes": 2}})", "[1, 256]"), EINVAL);
}

TEST(Zarr3Type, WhatV3CannotExpress) {
  const auto refused = [](const char* dtype, const Json& object_codec = {}) {
    return print_zarr3_type(parse_dtype(json(dtype)).value(), object_codec).error().code;
  };
  EXPECT_EQ(refused(R"([["a", "<i2"], ["b", ">i2"]])"), EOPNOTSUPP);
  EXPECT_EQ(refused(R"([["a", "<i2", [3]]])"), EOPNOTSUPP);
  EXPECT_EQ(refused(R"([["", "|V3"], ["a", "<i2"]])"), EOPNOTSUPP);
  EXPECT_EQ(refused(R"("<f16")"), EOPNOTSUPP);
  EXPECT_EQ(refused(R"("|O")", json(R"({"id": "pickle"})")), EOPNOTSUPP);
}

TEST(Zarr3Type, ByteOrders) {
  const DataType mixed = parse_dtype(json(R"([["a", "<i2"], ["b", ">i2"], ["c", "|u1"]])")).value();
  EXPECT_FALSE(common_byte_order(mixed));
  EXPECT_EQ(common_byte_order(with_byte_order(mixed, ByteOrder::big)), ByteOrder::big);
  EXPECT_EQ(common_byte_order(parse_dtype("|u1").value()), ByteOrder::none);
}

}  // namespace
}  // namespace codecfs
