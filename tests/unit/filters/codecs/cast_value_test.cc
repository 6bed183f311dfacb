// cast_value against cast-value-rs, the library of zarr-python, and ml_dtypes; its scalar map, byte orders, and what it
// refuses.

#include <cmath>
#include <limits>
#include <random>

#include "base/endian.h"
#include "model/json.h"
#include "model/small_float.h"
#include "model/zarr3_type.h"
#include "support/codec_testing.h"

namespace codecfs::filters::cast_value {
namespace {

struct Vector {
  const char* from;
  const char* to;
  const char* rounding;
  const char* out_of_range;  // empty: not given
  const char* elements;
  const char* converted;
  const char* refused;  // elements that cannot be converted
};

const Vector kVectors[] = {
#include "cast_vectors.inc"
};

Json codec_to(const DataType& type, std::string_view rounding, std::string_view out_of_range) {
  Json codec = {{"id", "zarr3:cast_value"}, {"data_type", *print_zarr3_type(type, {})}, {"rounding", rounding}};
  if (!out_of_range.empty()) codec["out_of_range"] = out_of_range;
  return codec;
}

Result<Pipeline> pipeline_of(const Json& codecs, const char* dtype, size_t bytes) {
  CODECFS_ASSIGN(const auto chain, parse_zarr_codecs(Json(), codecs, type_of(dtype).size));
  return Pipeline::make(chain, chunk_of(bytes, dtype));
}

Result<ByteVector> encode(const Json& codecs, const char* dtype, const ByteVector& elements) {
  CODECFS_ASSIGN(const Pipeline pipeline, pipeline_of(codecs, dtype, elements.size()));
  CODECFS_ASSIGN(const EncodedChunk encoded, pipeline.encode(elements));
  return to_vector(encoded.bytes);
}

/// `bytes`: of the decoded chunk.
Result<ByteVector> decode(const Json& codecs, const char* dtype, const ByteVector& stored, size_t bytes) {
  CODECFS_ASSIGN(const Pipeline pipeline, pipeline_of(codecs, dtype, bytes));
  CODECFS_ASSIGN(Buffer copy, Buffer::copy_of(stored));
  CODECFS_ASSIGN(const Buffer decoded, pipeline.decode(std::move(copy)));
  return to_vector(decoded);
}

Json list_of(const char* text) { return *parse_json(text); }

TEST(CastValue, AsCastValueRsConverts) {
  for (const Vector& vector : kVectors) {
    SCOPED_TRACE(fmt::format("{} to {}, {}, {}", vector.from, vector.to, vector.rounding, vector.out_of_range));
    const DataType from = type_of(vector.from);
    const DataType to = type_of(vector.to);
    const Json codecs = Json::array({codec_to(to, vector.rounding, vector.out_of_range)});
    const ByteVector elements = from_hex(vector.elements);
    const ByteVector converted = from_hex(vector.converted);
    const auto encoded = encode(codecs, vector.from, elements);
    ASSERT_TRUE(encoded) << reason(encoded);
    EXPECT_EQ(*encoded, converted);
    const ByteVector refused = from_hex(vector.refused);
    for (size_t at = 0; at < refused.size(); at += from.size) {
      const ByteVector one(refused.begin() + static_cast<ptrdiff_t>(at),
                           refused.begin() + static_cast<ptrdiff_t>(at + from.size));
      const auto failed = encode(codecs, vector.from, one);
      ASSERT_FALSE(failed) << "element at " << at;
      EXPECT_EQ(failed.error().code, EINVAL);
    }
    // Decoding follows the same rules, with the types exchanged.
    const bool is_wrapped = std::string_view(vector.out_of_range) == "wrap";
    if (is_wrapped && from.kind == TypeKind::floating) continue;
    const Json inverse = Json::array({codec_to(from, vector.rounding, vector.out_of_range)});
    const auto decoded = decode(inverse, vector.to, elements, converted.size());
    ASSERT_TRUE(decoded) << reason(decoded);
    EXPECT_EQ(*decoded, converted);
  }
}

TEST(CastValue, ADamagedElementIsAnError) {
  const Json codecs = list_of(R"([{"id": "zarr3:cast_value", "data_type": "float32"}])");
  const auto decoded = decode(codecs, "|u1", from_hex("00008043"), 1);  // 256
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().code, EIO);
  EXPECT_NE(decoded.error().reason.find("256 is out of range"), std::string::npos) << decoded.error().reason;
  EXPECT_EQ(decode(codecs, "|u1", from_hex("000080"), 1).error().code, EIO) << "no whole element";
}

TEST(CastValue, ScalarsAreMapped) {
  const Json codecs = list_of(R"([{"id": "zarr3:cast_value", "data_type": "uint8", "scalar_map": {
      "encode": [["NaN", 255], ["+Infinity", 254], [-5.5, 253], ["NaN", 1], [0.0, 7]],
      "decode": [[255, "0x7fc12345"], [254, "Infinity"], [7, "-0x0"]]}}])");
  EXPECT_FALSE(encode(codecs, "<f4", from_hex("00000000"))) << "-0x0 is no number";
  Json valid = codecs;
  valid[0]["scalar_map"]["decode"].erase(size_t{2});
  // NaN, another NaN, infinity, -5.5, 2, 0, -0
  const ByteVector elements = from_hex(
      "0000c07f"
      "2143c5ff"
      "0000807f"
      "0000b0c0"
      "00000040"
      "00000000"
      "00000080");
  const auto encoded = encode(valid, "<f4", elements);
  ASSERT_TRUE(encoded) << reason(encoded);
  EXPECT_EQ(*encoded, from_hex("fffffefd020707"));
  EXPECT_EQ(*decode(valid, "<f4", from_hex("fffe0207"), 16), from_hex("4523c17f0000807f000000400000e040"));
  EXPECT_FALSE(encode(valid, "<f4", from_hex("000080ff"))) << "-Infinity is not mapped";
}

TEST(CastValue, ByteOrderIsThatOfTheArrayUnlessItIsStated) {
  const ByteVector big = from_hex("00000102");
  EXPECT_EQ(*encode(list_of(R"([{"id": "zarr3:cast_value", "data_type": "uint16"}])"), ">i4", big), from_hex("0102"));
  EXPECT_EQ(*encode(list_of(R"([{"id": "zarr3:cast_value", "data_type": "uint16", "endian": "little"}])"), ">i4", big),
            from_hex("0201"));
  EXPECT_EQ(*encode(list_of(R"([{"id": "zarr3:cast_value", "data_type": "uint16"}])"), "|u1", from_hex("07")),
            from_hex("0700"));
  EXPECT_EQ(*encode(list_of(R"([{"id": "zarr3:cast_value", "data_type": "uint16", "endian": "big"}])"), "|u1",
                    from_hex("07")),
            from_hex("0007"));
}

TEST(CastValue, TheNextCodecGetsTheNewType) {
  const Json codecs = list_of(R"([{"id": "zarr3:scale_offset", "offset": -10, "scale": 0.5},
      {"id": "zarr3:cast_value", "data_type": "int16", "rounding": "towards-zero"},
      {"id": "zarr3:scale_offset", "offset": 1}, {"id": "zarr3:packbits", "last_bit": 3}])");
  // 4.0, -3.0 -> 7, 3.5 -> 7, 3 -> 6, 2 -> 4 bits each
  const ByteVector elements = from_hex("000000000000104000000000000008c0");
  const auto encoded = encode(codecs, "<f8", elements);
  ASSERT_TRUE(encoded) << reason(encoded);
  EXPECT_EQ(*encoded, from_hex("26"));
  const auto decoded = decode(codecs, "<f8", *encoded, 16);
  ASSERT_TRUE(decoded) << reason(decoded);
  EXPECT_EQ(*decoded, from_hex("000000000000104000000000000010c0")) << "4, -4";
  EXPECT_EQ(encode(codecs, "<f8", from_hex("0000000000002440")).error().code, EINVAL) << "9 has more than 4 bits";
}

TEST(CastValue, ThoseOfNumcodecsTellTheNextCodecTheirTypeToo) {
  // 1.25 rounds to 1 in a float32 that keeps one bit of its significand.
  const Json codecs = list_of(R"([{"id": "astype", "decode_dtype": "<f8", "encode_dtype": "<f4"},
      {"id": "bitround", "keepbits": 1}])");
  EXPECT_EQ(*encode(codecs, "<f8", from_hex("000000000000f43f")), from_hex("0000803f"));
}

struct SmallVector {
  const char* name;
  const char* elements;   // float32
  const char* converted;  // by ml_dtypes
};

const SmallVector kSmallVectors[] = {
#include "small_cast_vectors.inc"
};

/// All elements of a type, and a chunk of them.
ChunkShape small_chunk(const char* name, size_t bytes) {
  return {.bytes = bytes,
          .type = parse_zarr3_type(std::string(name)).value().type,
          .shape = {},
          .chunks = {},
          .type_name = name};
}

Result<Pipeline> pipeline_for(const Json& codec, const ChunkShape& chunk) {
  CODECFS_ASSIGN(const auto chain, parse_zarr_codecs(Json(), Json::array({codec}), chunk.type.size));
  return Pipeline::make(chain, chunk);
}

Json cast_to(std::string_view type, std::string_view out_of_range = "") {
  Json codec = {{"id", "zarr3:cast_value"}, {"data_type", type}};
  if (!out_of_range.empty()) codec["out_of_range"] = out_of_range;
  return codec;
}

ByteVector encoded_by(const Json& codec, const ChunkShape& chunk, const ByteVector& elements) {
  const auto pipeline = pipeline_for(codec, chunk);
  EXPECT_TRUE(pipeline) << reason(pipeline);
  const auto encoded = pipeline->encode(elements);
  EXPECT_TRUE(encoded) << reason(encoded);
  return encoded ? to_vector(encoded->bytes) : ByteVector();
}

TEST(CastValue, SmallFloatsAreRoundedAsMlDtypesDoes) {
  for (const SmallVector& vector : kSmallVectors) {
    SCOPED_TRACE(vector.name);
    const ByteVector elements = from_hex(vector.elements);
    EXPECT_EQ(encoded_by(cast_to(vector.name), chunk_of(elements.size(), "<f4"), elements), from_hex(vector.converted));
  }
}

TEST(CastValue, EachValueOfASmallFloatComesBack) {
  for (const SmallVector& vector : kSmallVectors) {
    SCOPED_TRACE(vector.name);
    const SmallFloat& format = *small_float_named(vector.name);
    const unsigned used = format.exponent + format.mantissa + (format.is_signed ? 1 : 0);
    ByteVector all;
    for (uint32_t bits = 0; bits < 1U << used; ++bits)
      for (unsigned i = 0; i < format.bytes; ++i) all.push_back(static_cast<std::byte>(bits >> (8 * i)));
    const size_t count = all.size() / format.bytes;
    const ByteVector wide = encoded_by(cast_to("float64"), small_chunk(vector.name, all.size()), all);
    ASSERT_EQ(wide.size(), count * 8);
    const ByteVector back = encoded_by(cast_to(vector.name), chunk_of(wide.size(), "<f8"), wide);
    ASSERT_EQ(back.size(), all.size());
    for (uint32_t bits = 0; bits < count; ++bits) {
      const double value = small_float_value(format, bits);
      const auto loaded = std::bit_cast<double>(load_le<uint64_t>(&wide[bits * 8]));
      uint32_t stored = 0;
      for (unsigned i = 0; i < format.bytes; ++i)
        stored |= std::to_integer<uint32_t>(back[bits * format.bytes + i]) << (8 * i);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(loaded)) << bits;
        EXPECT_TRUE(std::isnan(small_float_value(format, stored))) << bits;
      } else {
        EXPECT_EQ(std::bit_cast<uint64_t>(loaded), std::bit_cast<uint64_t>(value)) << bits;
        EXPECT_EQ(stored, bits);
      }
    }
  }
}

TEST(CastValue, WhatASmallFloatCannotHold) {
  const auto convert = [](const char* type, double value, const char* out_of_range) -> std::optional<double> {
    ByteVector element(8);
    store_le(element.data(), std::bit_cast<uint64_t>(value));
    const auto pipeline = pipeline_for(cast_to(type, out_of_range), chunk_of(8, "<f8"));
    EXPECT_TRUE(pipeline) << reason(pipeline);
    const auto encoded = pipeline->encode(element);
    if (!encoded) {
      EXPECT_EQ(encoded.error().code, EINVAL);
      EXPECT_NE(encoded.error().reason.find(type), std::string::npos) << encoded.error().reason;
      return std::nullopt;
    }
    const SmallFloat& format = *small_float_named(type);
    return small_float_value(format, format.bytes == 2 ? load_le<uint16_t>(encoded->bytes.data())
                                                       : std::to_integer<uint32_t>(encoded->bytes.data()[0]));
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double nan = std::nan("");
  EXPECT_EQ(convert("float8_e4m3fn", 449, ""), 448) << "rounded before the range is checked";
  EXPECT_EQ(convert("float8_e4m3fn", 500, ""), std::nullopt);
  EXPECT_EQ(convert("float8_e4m3fn", 500, "clamp"), 448) << "there is no infinity";
  EXPECT_EQ(convert("float8_e4m3fn", -1e300, "clamp"), -448);
  EXPECT_EQ(convert("float8_e4m3fn", kInfinity, "clamp"), std::nullopt);
  EXPECT_TRUE(std::isnan(*convert("float8_e4m3fn", nan, "")));
  EXPECT_EQ(convert("float8_e5m2", 1e6, "clamp"), kInfinity);
  EXPECT_EQ(convert("float8_e5m2", -kInfinity, ""), -kInfinity);
  EXPECT_EQ(convert("bfloat16", 3.4e38, "clamp"), kInfinity);
  EXPECT_EQ(convert("float4_e2m1fn", nan, "clamp"), std::nullopt);
  EXPECT_EQ(convert("float4_e2m1fn", 100, "clamp"), 6);
  EXPECT_EQ(convert("float8_e8m0fnu", 0, ""), std::nullopt);
  EXPECT_EQ(convert("float8_e8m0fnu", 0, "clamp"), std::ldexp(1, -127));
  EXPECT_EQ(convert("float8_e8m0fnu", -1, ""), std::nullopt);
  EXPECT_TRUE(std::signbit(*convert("float8_e5m2", -0.0, "")));
  EXPECT_FALSE(std::signbit(*convert("float8_e5m2fnuz", -0.0, ""))) << "it has no negative zero";
}

TEST(CastValue, SmallIntegers) {
  const ByteVector numbers = from_hex("0001fe08f980");  // 0, 1, -2, 8, -7, -128
  EXPECT_EQ(encoded_by(cast_to("int4", "clamp"), chunk_of(6, "|i1"), numbers), from_hex("0001fe07f9f8"));
  EXPECT_EQ(encoded_by(cast_to("int4", "wrap"), chunk_of(6, "|i1"), numbers), from_hex("0001fef8f900"));
  EXPECT_EQ(encoded_by(cast_to("uint4", "wrap"), chunk_of(6, "|i1"), numbers), from_hex("00010e080900"));
  EXPECT_EQ(encoded_by(cast_to("int2", "clamp"), chunk_of(6, "|i1"), numbers), from_hex("0001fe01fefe"));
  EXPECT_EQ(encoded_by(cast_to("uint2", "clamp"), chunk_of(6, "|i1"), numbers), from_hex("000100030000"));
  const auto refused = pipeline_for(cast_to("int4"), chunk_of(1, "|i1"))->encode(from_hex("08"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EINVAL);
  // The upper bits of a stored element are arbitrary.
  EXPECT_EQ(encoded_by(cast_to("int16"), small_chunk("int4", 4), from_hex("0f78f807")), from_hex("fffff8fff8ff0700"));
  EXPECT_EQ(encoded_by(cast_to("uint8"), small_chunk("uint2", 3), from_hex("fffe04")), from_hex("030200"));
}

TEST(CastValue, ScalarsOfSmallTypesAreMapped) {
  const Json codec = list_of(R"([{"id": "zarr3:cast_value", "data_type": "int4", "scalar_map": {
      "encode": [["NaN", -8]], "decode": [[-8, "NaN"]]}}])")[0];
  const ByteVector elements = from_hex("0000c07f0000e0c0");  // NaN, -7
  EXPECT_EQ(encoded_by(codec, chunk_of(8, "<f4"), elements), from_hex("f8f9"));
  const auto pipeline = pipeline_for(codec, chunk_of(8, "<f4"));
  const auto decoded = pipeline->decode(*Buffer::copy_of(from_hex("08f9")));
  ASSERT_TRUE(decoded) << reason(decoded);
  EXPECT_EQ(to_vector(*decoded), elements);
}

TEST(CastValue, RefusesWhatItDoesNotKnow) {
  for (const char* text :
       {R"([{"id": "zarr3:cast_value"}])", R"([{"id": "zarr3:cast_value", "data_type": "bool"}])",
        R"([{"id": "zarr3:cast_value", "data_type": "complex64"}])",
        R"([{"id": "zarr3:cast_value", "data_type": "string"}])",
        R"([{"id": "zarr3:cast_value", "data_type": "complex_bfloat16"}])",
        R"([{"id": "zarr3:cast_value", "data_type": "r16"}])",
        R"([{"id": "zarr3:cast_value", "data_type": "bfloat16", "out_of_range": "wrap"}])",
        R"([{"id": "zarr3:cast_value", "data_type": "int4", "scalar_map": {"encode": [[1, 8]]}}])",
        R"([{"id": "zarr3:cast_value", "data_type": "float4_e2m1fn", "scalar_map": {"encode": [["NaN", "NaN"]]}}])",
        R"([{"id": "zarr3:cast_value", "data_type": 5}])",
        R"([{"id": "zarr3:cast_value", "data_type": "uint8", "rounding": "up"}])",
        R"([{"id": "zarr3:cast_value", "data_type": "uint8", "out_of_range": true}])",
        R"([{"id": "zarr3:cast_value", "data_type": "float32", "out_of_range": "wrap"}])",
        R"([{"id": "zarr3:cast_value", "data_type": "uint8", "more": 1}])",
        R"([{"id": "zarr3:cast_value", "data_type": "uint8", "scalar_map": 1}])",
        R"([{"id": "zarr3:cast_value", "data_type": "uint8", "scalar_map": {"encode": [[1]]}}])",
        R"([{"id": "zarr3:cast_value", "data_type": "uint8", "scalar_map": {"encode": [[1, 256]]}}])",
        R"([{"id": "zarr3:cast_value", "data_type": "uint8", "scalar_map": {"both": []}}])"})
    EXPECT_EQ(pipeline_of(list_of(text), "<f8", 8).error().code, EINVAL) << text;
  const Json fine = list_of(R"([{"id": "zarr3:cast_value", "data_type": "uint8"}])");
  for (const char* dtype : {"|b1", "<c8", "<U1", "|V2", "<M8[s]"})
    EXPECT_EQ(pipeline_of(fine, dtype, type_of(dtype).size).error().code, EINVAL) << dtype;
}

}  // namespace
}  // namespace codecfs::filters::cast_value
