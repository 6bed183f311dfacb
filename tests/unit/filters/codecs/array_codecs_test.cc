// Codecs of Zarr v3 for arrays: scale_offset, reshape and packbits. Values of scale_offset are those of
// zarr-python 3.4.

#include "model/json.h"
#include "support/codec_testing.h"

namespace codecfs::filters::array_codecs {
namespace {

Result<Pipeline> pipeline_of(const char* codecs, ChunkShape chunk) {
  CODECFS_ASSIGN(const auto chain, parse_zarr_codecs(Json(), *parse_json(codecs), chunk.type.size));
  return Pipeline::make(chain, chunk);
}

Result<ByteVector> encode(const char* codecs, const ChunkShape& chunk, std::string_view hex) {
  CODECFS_ASSIGN(const Pipeline pipeline, pipeline_of(codecs, chunk));
  CODECFS_ASSIGN(const EncodedChunk encoded, pipeline.encode(from_hex(hex)));
  return to_vector(encoded.bytes);
}
Result<ByteVector> encode(const char* codecs, const char* dtype, std::string_view hex) {
  return encode(codecs, chunk_of(hex.size() / 2, dtype), hex);
}

Result<ByteVector> decode(const char* codecs, const ChunkShape& chunk, std::string_view hex) {
  CODECFS_ASSIGN(const Pipeline pipeline, pipeline_of(codecs, chunk));
  CODECFS_ASSIGN(Buffer copy, Buffer::copy_of(from_hex(hex)));
  CODECFS_ASSIGN(const Buffer decoded, pipeline.decode(std::move(copy)));
  return to_vector(decoded);
}
Result<ByteVector> decode(const char* codecs, const char* dtype, std::string_view hex) {
  return decode(codecs, chunk_of(hex.size() / 2, dtype), hex);
}

template <class T>
int error_of(const Result<T>& result) {
  return result ? 0 : result.error().code;
}

TEST(ScaleOffset, ComputesInTheTypeOfTheElements) {
  const char* const codec = R"([{"id": "zarr3:scale_offset", "offset": 5, "scale": 0.1}])";
  // 1, 2.5, -300, 1e10
  EXPECT_EQ(*encode(codec, "<f4", "0000803f00002040000096c3f9021550"), from_hex("cdccccbe000080be0000f4c1286b6e4e"));
  EXPECT_EQ(*decode(codec, "<f4", "cdccccbe000080be0000f4c1286b6e4e"), from_hex("0000803f00002040000096c3f9021550"));
  EXPECT_EQ(*encode(codec, "<f2", "003c0041b0dc"), from_hex("66b600b4a0cf"));
  EXPECT_EQ(*encode(codec, "<f4", "0000c07f"), from_hex("0000c07f")) << "NaN";
  const char* const whole = R"([{"id": "zarr3:scale_offset", "offset": 1000, "scale": 3}])";
  EXPECT_EQ(*encode(whole, "<u2", "e803e903"), from_hex("00000300"));
  EXPECT_EQ(*encode(whole, ">u2", "03e803e9"), from_hex("00000003"));
  EXPECT_EQ(*decode(whole, "<u2", "00000300"), from_hex("e803e903"));
  const char* const nothing = R"([{"id": "zarr3:scale_offset"}])";
  EXPECT_EQ(*encode(nothing, "<i8", "ffffffffffffffff"), from_hex("ffffffffffffffff"));
  EXPECT_EQ(*encode(R"([{"id": "zarr3:scale_offset", "offset": "0x3f800000"}])", "<f4", "0000803f"),
            from_hex("00000000"));
}

TEST(ScaleOffset, WhatTheTypeCannotHoldIsAnError) {
  const char* const codec = R"([{"id": "zarr3:scale_offset", "offset": 100, "scale": 3}])";
  EXPECT_EQ(error_of(encode(codec, "|u1", "63")), EINVAL) << "99 - 100";
  EXPECT_EQ(error_of(encode(codec, "|u1", "ff")), EINVAL) << "155 * 3";
  EXPECT_EQ(error_of(decode(codec, "|u1", "04")), EIO) << "4 / 3";
  EXPECT_EQ(error_of(decode(R"([{"id": "zarr3:scale_offset", "offset": 200}])", "|u1", "64")), EIO) << "100 + 200";
  const char* const negated = R"([{"id": "zarr3:scale_offset", "scale": -1}])";
  EXPECT_EQ(error_of(encode(negated, "|i1", "80")), EINVAL) << "-128 * -1";
  EXPECT_EQ(error_of(decode(negated, "|i1", "80")), EIO);
  EXPECT_EQ(*decode(negated, "|i1", "7f"), from_hex("81"));
  EXPECT_EQ(error_of(encode(R"([{"id": "zarr3:scale_offset", "scale": 10}])", "<f4", "ffff7f7f")), EINVAL);
  EXPECT_EQ(error_of(encode(R"([{"id": "zarr3:scale_offset", "scale": 2}])", "<u8", "0000000000000080")), EINVAL);
}

TEST(ScaleOffset, RefusesWhatItDoesNotKnow) {
  for (const char* text :
       {R"([{"id": "zarr3:scale_offset", "scale": 0}])", R"([{"id": "zarr3:scale_offset", "more": 0}])",
        R"([{"id": "zarr3:scale_offset", "offset": "x"}])", R"([{"id": "zarr3:scale_offset", "offset": 300}])",
        R"([{"id": "zarr3:scale_offset", "offset": 1.5}])", R"([{"id": "zarr3:scale_offset", "offset": [1]}])"})
    EXPECT_EQ(error_of(pipeline_of(text, chunk_of(8, "|u1"))), EINVAL) << text;
  EXPECT_EQ(error_of(pipeline_of(R"([{"id": "zarr3:scale_offset", "scale": "NaN"}])", chunk_of(8, "<f8"))), EINVAL);
  for (const char* dtype : {"|b1", "<c8", "|S3"})
    EXPECT_EQ(error_of(pipeline_of(R"([{"id": "zarr3:scale_offset"}])", chunk_of(24, dtype))), EINVAL) << dtype;
}

TEST(Reshape, TheBytesStay) {
  const ChunkShape chunk{.bytes = 24, .type = type_of("|u1"), .shape = {20, 30, 40}, .chunks = {2, 3, 4}};
  const std::string hex = "000102030405060708090a0b0c0d0e0f1011121314151617";
  for (const char* shape : {"[[0, 1], [2]]", "[6, 4]", "[-1]", "[[0], -1]", "[2, [1], 4]", "[[0, 1, 2]]", "[1, 24, 1]",
                            "[[], [0, 1, 2]]", "[[0, 1], 2, 2]"}) {
    const std::string codec = fmt::format(R"([{{"id": "zarr3:reshape", "shape": {}}}])", shape);
    EXPECT_EQ(reason(pipeline_of(codec.c_str(), chunk)), "(no error)") << shape;
    EXPECT_EQ(*encode(codec.c_str(), chunk, hex), from_hex(hex)) << shape;
    EXPECT_EQ(*decode(codec.c_str(), chunk, hex), from_hex(hex)) << shape;
  }
  const ChunkShape scalar{.bytes = 1, .type = type_of("|u1"), .shape = {}, .chunks = {}};
  EXPECT_EQ(*decode(R"([{"id": "zarr3:reshape", "shape": [1]}])", scalar, "07"), from_hex("07"));
  // The second gets the shape that the first makes.
  EXPECT_EQ(error_of(pipeline_of(R"([{"id": "zarr3:reshape", "shape": [4, 6]},
      {"id": "zarr3:reshape", "shape": [[0], 2, 3]}])",
                                 chunk)),
            0);
}

TEST(Reshape, ShapesThatDoNotFitAreRefused) {
  const ChunkShape chunk{.bytes = 24, .type = type_of("|u1"), .shape = {20, 30, 40}, .chunks = {2, 3, 4}};
  for (const char* shape :
       {"[[1], [0], [2]]", "[[0, 2], [1]]", "[5, -1]", "[-1, -1]", "[24, 2]", "[]", "[0, -1]", "[[0, 1], [1, 2]]",
        "[[3]]", "[[0], 24]", "[3, 2, [2], 1, 1, 2]", "[[1], 2, 4]", "[\"x\"]", "[-2, -12]", "24", "[2.0, 12]",
        "[[-1]]", "[18446744073709551615, 18446744073709551615]", "[[0.0], 12]"}) {
    const std::string codec = fmt::format(R"([{{"id": "zarr3:reshape", "shape": {}}}])", shape);
    EXPECT_EQ(error_of(pipeline_of(codec.c_str(), chunk)), EINVAL) << shape;
  }
  EXPECT_EQ(error_of(pipeline_of(R"([{"id": "zarr3:reshape"}])", chunk)), EINVAL);
  EXPECT_EQ(error_of(pipeline_of(R"([{"id": "zarr3:reshape", "shape": [24], "order": "F"}])", chunk)), EINVAL);
}

struct Packed {
  const char* dtype;
  const char* name;    // data type that numpy lacks
  const char* config;  // members of the codec
  const char* elements;
  const char* stored;
};

const Packed kPacked[] = {
    {"|b1", "", "", "01000000000000000101", "0103"},
    {"|b1", "", R"(, "padding_encoding": "first_byte")", "01000000000000000101", "060103"},
    {"|b1", "", R"(, "padding_encoding": "last_byte")", "0100000000000000", "0100"},
    {"|u1", "", R"(, "first_bit": 0, "last_bit": 2)", "01020304", "d108"},
    {"|u1", "", R"(, "last_bit": null)", "01020304", "01020304"},
    {"|i1", "", R"(, "last_bit": 3)", "01fe07f8", "e187"},
    {"|i1", "int4", "", "01fe07f8", "e187"},
    {"|u1", "uint4", "", "010e07", "e107"},
    {"|i1", "int2", "", "0100ffff", "f1"},
    {"|u1", "uint2", R"(, "padding_encoding": "last_byte")", "0100030201", "b10106"},
    {"<u2", "", R"(, "last_bit": 8)", "ff010100", "ff0300"},
    {">u2", "", R"(, "last_bit": 8)", "01ff0001", "ff0300"},
    {"<f4", "", "", "0000803f", "0000803f"},
    {"<c8", "", R"(, "first_bit": 16)", "0000803f00000040", "803f0040"},
    {"<i8", "", R"(, "first_bit": 0, "last_bit": 62)", "ffffffffffffffff0100000000000000",
     "ffffffffffffffff000000000000"
     "0000"},
    {"|V1", "float4_e2m1fn", "", "010f07", "f107"},
    {"|V1", "float6_e2m3fn", "", "3f01", "7f00"},
    {"|V2", "bfloat16", R"(, "first_bit": 8)", "003f0040", "3f40"},
};

ChunkShape chunk_of(const Packed& packed) {
  const size_t bytes = std::string_view(packed.elements).size() / 2;
  return {.bytes = bytes, .type = type_of(packed.dtype), .shape = {}, .chunks = {}, .type_name = packed.name};
}

TEST(Packbits, BothDirections) {
  for (const Packed& packed : kPacked) {
    SCOPED_TRACE(fmt::format("{} {} {}", packed.dtype, packed.name, packed.config));
    const std::string codec = fmt::format(R"([{{"id": "zarr3:packbits"{}}}])", packed.config);
    const auto encoded = encode(codec.c_str(), chunk_of(packed), packed.elements);
    ASSERT_TRUE(encoded) << reason(encoded);
    EXPECT_EQ(*encoded, from_hex(packed.stored));
    const auto decoded = decode(codec.c_str(), chunk_of(packed), packed.stored);
    ASSERT_TRUE(decoded) << reason(decoded);
    EXPECT_EQ(*decoded, from_hex(packed.elements));
  }
}

TEST(Packbits, LowBitsMayBeDroppedAndHighOnesNot) {
  EXPECT_EQ(*encode(R"([{"id": "zarr3:packbits", "first_bit": 4}])", "|u1", "1f2f"), from_hex("21"));
  EXPECT_EQ(error_of(encode(R"([{"id": "zarr3:packbits", "last_bit": 3}])", "|u1", "10")), EINVAL);
  EXPECT_EQ(error_of(encode(R"([{"id": "zarr3:packbits", "last_bit": 3}])", "|i1", "08")), EINVAL);
  const ChunkShape small{.bytes = 1, .type = type_of("|i1"), .shape = {}, .chunks = {}, .type_name = "int4"};
  EXPECT_EQ(error_of(encode(R"([{"id": "zarr3:packbits"}])", small, "08")), EINVAL) << "8 is no int4";
  EXPECT_EQ(*encode(R"([{"id": "zarr3:packbits"}])", "|b1", "ff"), from_hex("01")) << "any other byte is true";
}

TEST(Packbits, DamagedAndUnknown) {
  const char* const padded = R"([{"id": "zarr3:packbits", "padding_encoding": "first_byte"}])";
  const ChunkShape bools{.bytes = 10, .type = type_of("|b1"), .shape = {}, .chunks = {}};
  EXPECT_EQ(error_of(decode(padded, bools, "060103")), 0);
  for (const char* stored : {"050103", "0601", "", "06010300", "ff0103"})
    EXPECT_EQ(error_of(decode(padded, bools, stored)), EIO) << stored;
  for (const char* text :
       {R"([{"id": "zarr3:packbits", "padding_encoding": "start_byte"}])",
        R"([{"id": "zarr3:packbits", "first_bit": 8}])", R"([{"id": "zarr3:packbits", "first_bit": 3, "last_bit": 2}])",
        R"([{"id": "zarr3:packbits", "last_bit": -1}])", R"([{"id": "zarr3:packbits", "last_bit": 8}])",
        R"([{"id": "zarr3:packbits", "more": 1}])"})
    EXPECT_EQ(error_of(pipeline_of(text, filters::chunk_of(8, "|u1"))), EINVAL) << text;
  for (const char* dtype : {"|S2", "<U1", "|V2", "<M8[s]"})
    EXPECT_EQ(error_of(pipeline_of(R"([{"id": "zarr3:packbits"}])", filters::chunk_of(16, dtype))), EINVAL) << dtype;
}

}  // namespace
}  // namespace codecfs::filters::array_codecs
