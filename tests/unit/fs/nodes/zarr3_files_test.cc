// zarr.json: what it says of a variable, and what Zarr v3 cannot say.

#include "fs/nodes/zarr3_files.h"

#include "support/filesystem_testing.h"

namespace codecfs::fs {
namespace {

Variable number_variable(TypeKind kind, uint64_t size, ByteOrder order = ByteOrder::little) {
  Variable variable = text_variable({4}, {2});
  variable.type = {kind, order, size, {}, {}};
  variable.fill.assign(size, std::byte{0});
  variable.fill_value = Json();
  return variable;
}

Json parsed(const char* text) { return *parse_json(text); }

TEST(Zarr3Files, AGroupHasItsAttributes) {
  const std::vector<Attribute> attributes{{"title", Json("t")}};
  EXPECT_EQ(zarr3_group_json(attributes),
            parsed(R"({"zarr_format": 3, "node_type": "group", "attributes": {"title": "t"}})"));
  const std::string text = zarr3_group_text(attributes, "\n            \"v\": 1");
  const Json json = parsed(text.c_str());
  EXPECT_EQ(json["consolidated_metadata"],
            parsed(R"({"kind": "inline", "must_understand": false, "metadata": {"v": 1}})"));
  EXPECT_EQ(text, file_text(json));
  EXPECT_EQ(parsed(zarr3_group_text(attributes, "").c_str())["consolidated_metadata"]["metadata"], Json::object());
  const Result<std::vector<Attribute>> damaged = fail(EIO, "damaged");
  EXPECT_EQ(zarr3_group_json(damaged)["attributes"], parsed(R"({"_Error": "damaged"})"));
}

TEST(Zarr3Files, AnArrayIsDescribed) {
  Variable variable = number_variable(TypeKind::signed_int, 4, ByteOrder::big);
  variable.fill = {std::byte{0}, std::byte{0}, std::byte{0}, std::byte{7}};
  variable.attributes = {{"units", Json("m")}};
  variable.dimensions = {"x"};
  EXPECT_EQ(*zarr3_array_json(variable, {}), parsed(R"({
    "zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "int32",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "fill_value": 7, "codecs": [{"name": "bytes", "configuration": {"endian": "big"}}],
    "attributes": {"units": "m"}, "dimension_names": ["x"]})"));
}

TEST(Zarr3Files, ShardsAreDescribedAsTheyAreStored) {
  const Json codecs = parsed(R"([{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 1],
    "codecs": [{"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "bytes"}]}}])");
  Variable variable = text_variable({8, 6}, {2, 1});
  variable.shards = Sharding{*ChunkGrid::make({8, 6}, {4, 3}), codecs};
  const Json shown = *zarr3_sharded_json(variable, {});
  EXPECT_EQ(shown["codecs"], codecs);
  EXPECT_EQ(shown["chunk_grid"]["configuration"]["chunk_shape"], parsed("[4, 3]"));
  const auto written = parse_zarr_json(print_json(shown), true);
  ASSERT_TRUE(written) << written.error().reason;
  EXPECT_EQ(written->variable.grid.chunks(), variable.grid.chunks());
  EXPECT_EQ(written->variable.shards->grid.chunks(), variable.shards->grid.chunks());
  EXPECT_EQ(written->variable.shards->codecs, codecs);
  EXPECT_EQ(written->variable.chunk_bytes, 2);
  EXPECT_EQ(parse_zarr_json(print_json(shown), false).error().code, EINVAL) << "decoded chunks have no shards";
}

TEST(Zarr3Files, AFillThatWasTooLargeToKeepIsZeros) {
  Variable variable = number_variable(TypeKind::raw, 3, ByteOrder::none);
  variable.fill.clear();
  EXPECT_EQ((*zarr3_array_json(variable, {}))["fill_value"], "AAAA");
}

TEST(Zarr3Files, WhatZarr3CannotSayIsAnError) {
  Variable variable = number_variable(TypeKind::structured, 12, ByteOrder::none);
  variable.type.members = {{"a", {TypeKind::signed_int, ByteOrder::little, 4, {}, {}}, {}},
                           {"b", {TypeKind::floating, ByteOrder::big, 8, {}, {}}, {}}};
  EXPECT_EQ(zarr3_array_json(variable, {}).error().code, EOPNOTSUPP);
}

TEST(Zarr3Files, FillAttributesAreThoseOfXarray) {
  // By FillValueCoder of xarray 2024.10: base64 of a float64, whatever the size of the float.
  const Variable floats = number_variable(TypeKind::floating, 4);
  EXPECT_EQ(print_fill_attribute(floats, Json(std::nan(""))), Json("AAAAAAAA+H8="));
  EXPECT_EQ(print_fill_attribute(floats, Json::array({-9.5})), Json("AAAAAAAAI8A="));
  EXPECT_EQ(parse_fill_attribute(floats, Json("AAAAAAAAI8A=")), Json(-9.5));
  EXPECT_EQ(parse_fill_attribute(floats, *print_fill_attribute(floats, Json(shortest_double(0.1F)))), Json(0.1));
  EXPECT_EQ(parse_fill_attribute(floats, Json(-9.5)), std::nullopt);
  const Variable complex = number_variable(TypeKind::complex, 16);
  EXPECT_EQ(print_fill_attribute(complex, Json::array({-9.5, -9.5})), parsed(R"(["AAAAAAAAI8A=", "AAAAAAAAI8A="])"));
  EXPECT_EQ(parse_fill_attribute(complex, parsed(R"(["AAAAAAAAI8A=", "AAAAAAAAI8A="])")), Json::array({-9.5, -9.5}));
  const Variable whole = number_variable(TypeKind::signed_int, 2);
  EXPECT_EQ(print_fill_attribute(whole, Json::array({-9})), Json(-9));
  EXPECT_EQ(parse_fill_attribute(whole, Json(-9)), Json(-9));
  EXPECT_EQ(print_fill_attribute(number_variable(TypeKind::string, 2), Json("x")), std::nullopt)
      << "xarray does not open an array with it";
}

TEST(Zarr3Files, AFillValueThatXarrayMasksInV2IsAnAttribute) {
  Variable variable = number_variable(TypeKind::signed_int, 1, ByteOrder::none);
  const auto attributes = [&] { return (*zarr3_array_json(variable, {}))["attributes"]; };
  EXPECT_EQ(attributes(), Json::object());
  variable.fill = {std::byte{7}};
  EXPECT_EQ(attributes(), Json::object()) << "not in v2 either";
  variable.fill_value = Json(7);
  EXPECT_EQ(attributes(), parsed(R"({"_FillValue": 7})"));
  variable.attributes = {{"_FillValue", Json(8)}};
  EXPECT_EQ(attributes(), parsed(R"({"_FillValue": 8})"));
  variable.attributes.clear();
  variable.fill = {std::byte{0}};
  variable.fill_value = Json(0);
  EXPECT_EQ(attributes(), Json::object()) << "Zarr's default";
}

}  // namespace
}  // namespace codecfs::fs
