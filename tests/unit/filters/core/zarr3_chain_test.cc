// `_Codecs` in the form of Zarr v3: what it shows of a variable, and what may be written.

#include "filters/core/zarr3_chain.h"

#include <gtest/gtest.h>

#include "filters/core/codec_json.h"
#include "filters/core/filter_spec.h"
#include "model/json.h"

namespace codecfs::filters::zarr3_chain_tests {
namespace {

Json json(std::string_view text) { return parse_json(text).value(); }

Variable variable_of(const char* dtype, std::vector<uint64_t> chunks = {4, 6}) {
  Variable variable;
  variable.type = *parse_dtype(Json(dtype));
  variable.grid = *ChunkGrid::make(std::vector<uint64_t>(chunks.size(), 100), chunks);
  return variable;
}

std::string printed(const Variable& variable) {
  const auto list = print_zarr3_chain(variable);
  return list ? print_json(*list) : list.error().reason;
}

/// The codecs, or the error.
std::string parsed(std::string_view list, const Variable& variable) {
  const auto chain = parse_zarr3_chain(json(list), &variable);
  if (!chain) return chain.error().code == EINVAL ? chain.error().reason : "another code";
  return print_json(print_codecs(*chain));
}

constexpr const char* kLittle = R"({"name": "bytes", "configuration": {"endian": "little"}})";

TEST(Zarr3Chain, ShowsWhatEncodesAChunk) {
  Variable variable = variable_of("<i4");
  EXPECT_EQ(printed(variable), fmt::format("[{}]", kLittle));
  variable.filters = *parse_filter_spec("shuffle|deflate,5");
  for (FilterStage& stage : variable.filters)
    if (stage.id == 2) stage.parameters = {4};
  EXPECT_EQ(printed(variable),
            fmt::format(R"([{}, {{"name": "numcodecs.shuffle", "configuration": {{"elementsize": 4}}}}, )"
                        R"({{"name": "numcodecs.zlib", "configuration": {{"level": 5}}}}])",
                        kLittle));
  variable.filters = *parse_zarr_codecs(json(R"({"id": "zstd", "level": 3})"), {}, 4);
  variable.stored_order = {1, 0};
  EXPECT_EQ(printed(variable), fmt::format(R"([{{"name": "transpose", "configuration": {{"order": [1, 0]}}}}, {}, )"
                                           R"({{"name": "zstd", "configuration": {{"level": 3, "checksum": false}}}}])",
                                           kLittle));
  Variable text = variable_of("|O");
  text.object_codec = json(R"({"id": "vlen-utf8"})");
  EXPECT_EQ(printed(text), R"([{"name": "vlen-utf8"}])");
  Variable small = variable_of("|V2");
  small.zarr3_type = "bfloat16";
  EXPECT_EQ(printed(small), fmt::format("[{}]", kLittle)) << "raw here";
  variable.filters = *parse_filter_spec("32000");
  EXPECT_FALSE(print_zarr3_chain(variable)) << "LZF has no codec";
  EXPECT_EQ(print_json(*print_zarr3_chain(*parse_filter_spec("deflate,5"))),
            R"([{"name": "numcodecs.zlib", "configuration": {"level": 5}}])");
}

TEST(Zarr3Chain, IsToldFromTheOtherForm) {
  EXPECT_TRUE(is_zarr3_form(json(R"([{"name": "zstd"}])")));
  EXPECT_TRUE(is_zarr3_form(json(R"(["bytes"])")));
  for (const char* text : {R"([{"id": "zstd"}])", R"([{"id": "hdf5:32000", "name": "lzf"}])", "[]", "[1]", "{}"})
    EXPECT_FALSE(is_zarr3_form(json(text))) << text;
}

TEST(Zarr3Chain, WhatIsShownIsTheSamePipeline) {
  Variable variable = variable_of(">f8");
  variable.stored_order = {1, 0};
  for (const char* codecs :
       {R"([])", R"([{"id": "zstd", "level": 3}])", R"([{"id": "crc32c"}])",
        R"([{"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}])",
        R"([{"id": "shuffle", "elementsize": 8}, {"id": "zlib", "level": 4}])",
        R"([{"id": "zarr3:scale_offset", "scale": 2}, {"id": "zarr3:cast_value", "data_type": "int16"}])"}) {
    variable.filters = *parse_zarr_codecs({}, json(codecs), 8);
    EXPECT_EQ(parsed(printed(variable), variable), print_json(print_codecs(variable.filters)));
  }
}

TEST(Zarr3Chain, TheSerializerMayBeOmittedButNotChanged) {
  const Variable variable = variable_of("<i4");
  constexpr const char* kZstd = R"([{"id": "zstd", "level": 3}])";
  EXPECT_EQ(parsed(R"([{"name": "zstd", "configuration": {"level": 3}}])", variable), kZstd);
  EXPECT_EQ(parsed(R"(["bytes", {"name": "zstd", "configuration": {"level": 3}}])", variable), kZstd);
  EXPECT_EQ(parsed(R"([{"name": "bitround", "configuration": {"keepbits": 3}}])", variable),
            R"([{"id": "bitround", "keepbits": 3}])");
  EXPECT_EQ(parsed(R"([{"name": "packbits"}])", variable), R"([{"id": "zarr3:packbits"}])");
  EXPECT_EQ(parsed(R"([{"name": "bytes", "configuration": {"endian": "big"}}])", variable),
            "bytes: the byte order of stored elements, little, cannot be changed");
  EXPECT_EQ(parsed(R"([{"name": "bytes", "configuration": {"endian": "big"}}])", variable_of("|u1")), "[]");
  EXPECT_NE(parsed(R"([{"name": "vlen-utf8"}])", variable).find("stored with the codec bytes"), std::string::npos);
  Variable text = variable_of("|O");
  text.object_codec = json(R"({"id": "vlen-utf8"})");
  EXPECT_EQ(parsed(R"([{"name": "zstd", "configuration": {"level": 3}}])", text), kZstd);
  EXPECT_NE(parsed(R"(["bytes"])", text).find("stored with the codec"), std::string::npos);
}

TEST(Zarr3Chain, TheOrderOfAxesStays) {
  Variable variable = variable_of("<i4");
  const std::string transposed =
      fmt::format(R"([{{"name": "transpose", "configuration": {{"order": [1, 0]}}}}, {}])", kLittle);
  EXPECT_EQ(parsed(transposed, variable),
            "transpose: the order of axes of stored chunks, that of the array, cannot be changed");
  EXPECT_EQ(parsed(transposed, variable_of("<i4", {1, 6})), "[]") << "it changes nothing";
  variable.stored_order = {1, 0};
  EXPECT_EQ(parsed(transposed, variable), "[]");
  EXPECT_EQ(parsed(R"([{"name": "crc32c"}])", variable), R"([{"id": "crc32c"}])") << "it says nothing of the array";
  EXPECT_EQ(parsed(R"(["bytes"])", variable),
            "transpose: the order of axes of stored chunks, [1, 0], cannot be changed");
}

TEST(Zarr3Chain, WhatDoesNotBelongToThePipelineIsRefused) {
  const Variable variable = variable_of("<i4");
  EXPECT_NE(parsed(R"([{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 2], "codecs": ["bytes"]}}])",
                   variable)
                .find("sharding_indexed"),
            std::string::npos);
  for (const char* text : {R"(["bytes", 5])", R"(["zstd", "bytes"])", R"([{"name": "zstd", "level": 3}])",
                           R"([{"name": "bytes"}, {"id": "zstd"}])", R"(["bytes", "bytes"])",
                           R"([{"name": "numcodecs.delta", "configuration": {"dtype": ">i4"}}, "bytes"])"}) {
    const auto chain = parse_zarr3_chain(json(text), &variable);
    EXPECT_TRUE(!chain && chain.error().code == EINVAL) << text;
  }
}

TEST(Zarr3Chain, OfVariablesToCome) {
  const auto chain = parse_zarr3_chain(json(R"(["bytes", {"name": "gzip", "configuration": {"level": 4}}])"), nullptr);
  ASSERT_TRUE(chain);
  EXPECT_EQ(print_json(print_codecs(*chain)), R"([{"id": "gzip", "level": 4}])");
  for (const char* text : {R"([{"name": "transpose", "configuration": {"order": []}}, "bytes"])", R"(["vlen-utf8"])",
                           R"(["sharding_indexed"])"})
    EXPECT_EQ(parse_zarr3_chain(json(text), nullptr).error().code, EINVAL) << text;
}

TEST(Zarr3Chain, PipelinesAreComparedAsZarrJsonHasThem) {
  const auto chain = [](const char* text) { return *parse_zarr_codecs({}, json(text), 4); };
  const auto plain = chain(R"([{"id": "zstd", "level": 3}])");
  EXPECT_TRUE(are_equal_in_zarr3(plain, chain(R"([{"checksum": false, "level": 3, "id": "zstd"}])"), 4));
  EXPECT_FALSE(are_equal_in_zarr3(plain, chain(R"([{"id": "zstd", "level": 3, "checksum": true}])"), 4));
  EXPECT_FALSE(are_equal_in_zarr3(plain, {}, 4));
}

}  // namespace
}  // namespace codecfs::filters::zarr3_chain_tests
