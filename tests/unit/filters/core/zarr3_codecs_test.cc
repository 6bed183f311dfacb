// Codec lists of Zarr v3, in the forms that zarr-python 3, tensorstore and zarrita write.

#include "filters/core/zarr3_codecs.h"

#include <gtest/gtest.h>

#include "filters/core/codec_json.h"
#include "model/json.h"

namespace codecfs::filters {
namespace {

Json json(std::string_view text) { return parse_json(text).value(); }

const DataType kInt32 = {
    .kind = TypeKind::signed_int, .order = ByteOrder::little, .size = 4, .unit = {}, .members = {}};

Result<Zarr3Codecs> parse(const char* text, size_t rank = 2) { return parse_zarr3_codecs(json(text), kInt32, rank); }

TEST(Zarr3Codecs, BothDirections) {
  for (
      const char* text : {
          R"([{"name": "bytes", "configuration": {"endian": "little"}}])",
          R"([{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "zstd", "configuration": {"level": 3, "checksum": true}}])",
          R"([{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "gzip", "configuration": {"level": 5}}, {"name": "crc32c"}])",
          R"([{"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "bytes", "configuration": {"endian": "little"}}])",
          R"([{"name": "numcodecs.delta", "configuration": {"dtype": "<i4"}}, {"name": "bytes", "configuration": {"endian": "little"}}, {"name": "numcodecs.shuffle", "configuration": {"elementsize": 4}}, {"name": "numcodecs.zlib", "configuration": {"level": 1}}])",
          R"([{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "unheard_of", "configuration": {"x": [1]}}])",
      }) {
    const auto codecs = parse(text);
    ASSERT_TRUE(codecs) << text << codecs.error().reason;
    const auto printed = print_zarr3_codecs(codecs->stages, kInt32, codecs->object_codec, codecs->order);
    ASSERT_TRUE(printed);
    EXPECT_EQ(print_json(*printed), print_json(json(text)));
  }
}

TEST(Zarr3Codecs, CodecsOfArraysInBothDirections) {
  for (
      const char* text : {
          R"([{"name": "scale_offset", "configuration": {"offset": 5, "scale": 0.1}}, {"name": "cast_value", "configuration": {"data_type": "uint8", "rounding": "nearest-away"}}, {"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}])",
          R"([{"name": "scale_offset"}, {"name": "cast_value", "configuration": {"data_type": "float64"}}, {"name": "bytes", "configuration": {"endian": "little"}}, {"name": "blosc", "configuration": {"cname": "lz4", "clevel": 1, "shuffle": "shuffle", "blocksize": 0, "typesize": 8}}])",
          R"([{"name": "reshape", "configuration": {"shape": [[0, 1]]}}, {"name": "packbits", "configuration": {"last_bit": 7}}, {"name": "zstd", "configuration": {"level": 3, "checksum": true}}])",
      }) {
    const auto codecs = parse(text);
    ASSERT_TRUE(codecs) << text << codecs.error().reason;
    EXPECT_FALSE(codecs->unreadable);
    const auto printed = print_zarr3_codecs(codecs->stages, kInt32, codecs->object_codec, codecs->order);
    ASSERT_TRUE(printed);
    EXPECT_EQ(print_json(*printed), print_json(json(text)));
  }
  // The size of elements behind cast_value is that of Blosc.
  const auto stages = parse_zarr_codecs({}, json(R"([{"id": "zarr3:cast_value", "data_type": "uint8"},
      {"id": "blosc", "cname": "lz4", "clevel": 1, "shuffle": 1}])"),
                                        4);
  EXPECT_EQ((*print_zarr3_codecs(*stages, kInt32, {}))[2]["configuration"]["typesize"], 1);
}

TEST(Zarr3Codecs, BytesStatesTheByteOrderBehindTheCodecsOfArrays) {
  const DataType byte = {
      .kind = TypeKind::unsigned_int, .order = ByteOrder::none, .size = 1, .unit = {}, .members = {}};
  const Json list = json(R"([{"name": "cast_value", "configuration": {"data_type": "int16"}},
      {"name": "bytes", "configuration": {"endian": "big"}}])");
  const auto codecs = parse_zarr3_codecs(list, byte, 1);
  ASSERT_TRUE(codecs);
  EXPECT_EQ(*codecs->stages[0].codec, json(R"({"id": "zarr3:cast_value", "data_type": "int16", "endian": "big"})"));
  EXPECT_EQ(print_json(*print_zarr3_codecs(codecs->stages, byte, {})), print_json(list));
  const auto little = parse_zarr_codecs({}, json(R"([{"id": "zarr3:cast_value", "data_type": "int16"}])"), 1);
  EXPECT_EQ((*print_zarr3_codecs(*little, byte, {}))[1],
            json(R"({"name": "bytes", "configuration": {"endian": "little"}})"));
  // Elements of one byte keep what says the order of the array.
  DataType big = kInt32;
  big.order = ByteOrder::big;
  const auto narrow = parse_zarr_codecs({}, json(R"([{"id": "zarr3:cast_value", "data_type": "int8"}])"), 4);
  EXPECT_EQ((*print_zarr3_codecs(*narrow, big, {}))[1],
            json(R"({"name": "bytes", "configuration": {"endian": "big"}})"));
  EXPECT_EQ(print_zarr3_codecs(*parse_zarr_codecs({}, json(R"([{"id": "zarr3:packbits"}])"), 4), big, {}).error().code,
            EOPNOTSUPP);
  // numcodecs' codecs work on the bytes of elements as their dtype says.
  EXPECT_TRUE(parse(R"([{"name": "numcodecs.delta", "configuration": {"dtype": "<i4"}},
      {"name": "bytes", "configuration": {"endian": "big"}}])")
                  ->unreadable);
}

TEST(Zarr3Codecs, ElementsHaveTheByteOrderThatNumcodecsDecodesTo) {
  const DataType real = {.kind = TypeKind::floating, .order = ByteOrder::little, .size = 8, .unit = {}, .members = {}};
  const auto order_of = [&](const char* text) {
    const auto codecs = parse_zarr3_codecs(json(text), real, 1);
    EXPECT_TRUE(codecs) << text;
    EXPECT_FALSE(codecs->unreadable) << codecs->unreadable->reason;
    return codecs->byte_order.value_or(ByteOrder::little);
  };
  EXPECT_EQ(order_of(R"([{"name": "numcodecs.astype", "configuration": {"decode_dtype": "<f8", "encode_dtype": ">i2"}},
      {"name": "bytes", "configuration": {"endian": "big"}}])"),
            ByteOrder::little);
  EXPECT_EQ(order_of(R"([{"name": "numcodecs.astype", "configuration": {"decode_dtype": ">f8", "encode_dtype": "|u1"}},
      "bytes"])"),
            ByteOrder::big);
  EXPECT_EQ(order_of(R"([{"name": "bitround", "configuration": {"keepbits": 5}},
      {"name": "numcodecs.quantize", "configuration": {"digits": 2, "dtype": "<f8", "astype": ">f4"}},
      {"name": "bytes", "configuration": {"endian": "big"}}])"),
            ByteOrder::little);
  // Nothing says how elements of one byte order become those of the other.
  EXPECT_TRUE(
      parse_zarr3_codecs(json(R"([{"name": "numcodecs.delta", "configuration": {"dtype": "<f8", "astype": ">f8"}},
      {"name": "numcodecs.delta", "configuration": {"dtype": "<f8"}},
      {"name": "bytes", "configuration": {"endian": "little"}}])"),
                         real, 1)
          ->unreadable);
  const auto stages = parse_zarr_codecs({}, json(R"([{"id": "delta", "dtype": ">f8"}])"), 8);
  EXPECT_EQ(print_zarr3_codecs(*stages, real, {}).error().code, EOPNOTSUPP) << "elements are read in the other order";
}

TEST(Zarr3Codecs, ReshapeChangesTheAxesOfWhatFollows) {
  const auto after = parse(R"([{"name": "reshape", "configuration": {"shape": [2, 3, 4]}},
      {"name": "transpose", "configuration": {"order": [2, 0, 1]}}, "bytes"])");
  ASSERT_TRUE(after) << after.error().reason;
  EXPECT_TRUE(after->unreadable);
  EXPECT_TRUE(after->order.empty());
  const auto before = parse(R"([{"name": "transpose", "configuration": {"order": [1, 0]}},
      {"name": "reshape", "configuration": {"shape": [24]}}, "bytes"])");
  EXPECT_FALSE(before->unreadable);
  EXPECT_EQ(before->order, (std::vector<size_t>{1, 0}));
}

TEST(Zarr3Codecs, Blosc) {
  const auto codecs = parse(R"(["bytes", {"name": "blosc", "configuration":
      {"typesize": 4, "cname": "zstd", "clevel": 5, "shuffle": "bitshuffle", "blocksize": 0}}])");
  ASSERT_TRUE(codecs);
  EXPECT_EQ(codecs->stages[0].id, 32001U);
  EXPECT_EQ((*codecs->stages[0].codec)["shuffle"], 2);
  const Json printed = print_zarr3_stage(codecs->stages[0], 4);
  EXPECT_EQ(printed["configuration"]["shuffle"], "bitshuffle");
  EXPECT_EQ(printed["configuration"]["typesize"], 4);
}

TEST(Zarr3Codecs, TransposesCompose) {
  const auto codecs = parse(R"([{"name": "transpose", "configuration": {"order": [2, 0, 1]}},
      {"name": "transpose", "configuration": {"order": [1, 0, 2]}}, "bytes"])",
                            3);
  ASSERT_TRUE(codecs);
  EXPECT_EQ(codecs->order, (std::vector<size_t>{0, 2, 1}));
  EXPECT_EQ(parse(R"([{"name": "transpose", "configuration": {"order": "F"}}, "bytes"])")->order,
            (std::vector<size_t>{1, 0}));
  const auto twice = parse(R"([{"name": "transpose", "configuration": {"order": [1, 0]}},
      {"name": "transpose", "configuration": {"order": [1, 0]}}, "bytes"])");
  EXPECT_TRUE(twice->order.empty());
}

TEST(Zarr3Codecs, ATransposeAfterADifferenceCannotBeUndone) {
  const auto codecs = parse(R"([{"name": "numcodecs.delta", "configuration": {"dtype": "<i4"}},
      {"name": "transpose", "configuration": {"order": [1, 0]}}, "bytes"])");
  ASSERT_TRUE(codecs);
  EXPECT_TRUE(codecs->unreadable);
  const auto rounded = parse(R"([{"name": "bitround", "configuration": {"keepbits": 3}},
      {"name": "transpose", "configuration": {"order": [1, 0]}}, "bytes"])");
  EXPECT_FALSE(rounded->unreadable);
}

TEST(Zarr3Codecs, Sharding) {
  const auto codecs = parse(R"([{"name": "transpose", "configuration": {"order": [1, 0]}},
      {"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 1]}}, "crc32c"])");
  ASSERT_TRUE(codecs);
  ASSERT_TRUE(codecs->sharding);
  EXPECT_EQ((**codecs->sharding)["chunk_shape"], json("[1, 1]"));
  EXPECT_EQ(codecs->stages.size(), 1U);
  EXPECT_EQ(codecs->order, (std::vector<size_t>{1, 0}));
}

TEST(Zarr3Codecs, Malformed) {
  for (const char* text :
       {"{}", "[]", "[1]", "[{}]", R"([{"name": "bytes", "configuration": 1}])", R"([{"name": "bytes", "x": 1}])",
        R"(["bytes", "bytes"])", R"(["bytes", {"name": "transpose", "configuration": {"order": [1, 0]}}])",
        R"([{"name": "bytes", "configuration": {"endian": "middle"}}])", R"([{"name": "transpose"}, "bytes"])",
        R"([{"name": "transpose", "configuration": {"order": [0, 0]}}, "bytes"])",
        R"([{"name": "transpose", "configuration": {"order": [0, 1, 2]}}, "bytes"])", R"(["transpose", "bytes"])"})
    EXPECT_EQ(parse(text).error().code, EINVAL) << text;
  Json many = Json::array({"bytes"});
  for (int i = 0; i < 40; ++i) many.push_back("crc32c");
  EXPECT_EQ(parse_zarr3_codecs(many, kInt32, 2).error().code, EINVAL);
}

TEST(Zarr3Codecs, WhatV3CannotExpress) {
  const auto chain = [](const char* filters) { return parse_zarr_codecs({}, json(filters), 4).value(); };
  EXPECT_EQ(print_zarr3_codecs(chain(R"([{"id": "zlib", "level": 1}, {"id": "delta", "dtype": "<i4"}])"), kInt32, {})
                .error()
                .code,
            EOPNOTSUPP);
  EXPECT_EQ(print_zarr3_codecs(chain(R"([{"id": "hdf5:32000", "parameters": []}])"), kInt32, {}).error().code,
            EOPNOTSUPP);
}

}  // namespace
}  // namespace codecfs::filters
