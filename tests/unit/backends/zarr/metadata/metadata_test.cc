// .zarray and .zattrs texts to variables: every field of the specification, every form of NCZarr, and invalid texts.

#include "backends/zarr/metadata/metadata.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "model/json.h"
#include "model/limits.h"

namespace codecfs::zarr {
namespace {

/// A .zarray of two by three chunks of <i4, with some keys replaced (an empty value removes the key).
std::string zarray(const std::vector<std::pair<std::string, std::string>>& changes = {}) {
  std::vector<std::pair<std::string, std::string>> keys = {
      {"zarr_format", "2"},   {"shape", "[20, 25]"}, {"chunks", "[10, 10]"}, {"dtype", "\"<i4\""},
      {"compressor", "null"}, {"fill_value", "0"},   {"order", "\"C\""},     {"filters", "null"}};
  for (const auto& change : changes) {
    const auto found = std::ranges::find(keys, change.first, [](const auto& key) { return key.first; });
    if (found == keys.end()) {
      keys.push_back(change);
    } else {
      found->second = change.second;
    }
  }
  std::string text;
  for (const auto& [key, value] : keys)
    if (!value.empty()) text += fmt::format("{}\"{}\": {}", text.empty() ? "{" : ", ", key, value);
  return text + "}";
}

Array parse(const std::string& text, std::optional<std::string> zattrs = {}, std::optional<std::string> nczvar = {}) {
  auto array = parse_array({text, std::move(zattrs), std::move(nczvar)});
  EXPECT_TRUE(array) << text << ": " << (array ? "" : array.error().reason);
  return array ? std::move(*array) : Array();
}

std::string reason_for(const std::string& text, std::optional<std::string> zattrs = {}) {
  const auto array = parse_array({text, std::move(zattrs), std::nullopt});
  EXPECT_FALSE(array) << text;
  if (array) return "";
  EXPECT_EQ(array.error().code, EIO);
  return array.error().reason;
}

std::string dtype_of(const Array& array) { return print_json(print_dtype(array.variable.type)); }

using Names = std::vector<std::string>;
using Lengths = std::vector<uint64_t>;

TEST(ZarrMetadata, APlainArray) {
  const Array array = parse(zarray(), R"({"units": "K", "_ARRAY_DIMENSIONS": ["y", "x"], "scale": 0.5})");
  const Variable& variable = array.variable;
  EXPECT_EQ(variable.grid.shape(), (Lengths{20, 25}));
  EXPECT_EQ(variable.grid.count(), 6U);
  EXPECT_EQ(variable.chunk_bytes, 400U);
  EXPECT_EQ(variable.fill, std::vector<std::byte>(4));
  EXPECT_EQ(*variable.fill_value, 0);
  EXPECT_EQ(variable.dimensions, (Names{"y", "x"}));
  ASSERT_EQ(variable.attributes.size(), 2U);
  EXPECT_EQ(variable.attributes[0].name, "units");
  EXPECT_EQ(variable.attributes[1].name, "scale");
  EXPECT_FALSE(variable.unreadable);
  EXPECT_EQ(array.keys.separator, '.');
  EXPECT_TRUE(array.variable.stored_order.empty());
}

TEST(ZarrMetadata, WithoutAttributesThereAreNoDimensionNames) {
  EXPECT_FALSE(parse(zarray()).variable.dimensions);
  EXPECT_FALSE(parse(zarray(), "{}").variable.dimensions);
}

TEST(ZarrMetadata, DimensionNamesThatDoNotFitStayAnAttribute) {
  for (const char* names : {R"(["x"])", R"(["x", "y", "z"])", R"(["x", 1])", R"("xy")", "null"}) {
    const Array array = parse(zarray(), fmt::format(R"({{"_ARRAY_DIMENSIONS": {}}})", names));
    EXPECT_FALSE(array.variable.dimensions) << names;
    EXPECT_EQ(array.variable.attributes.size(), 1U) << names;
  }
}

TEST(ZarrMetadata, Separators) {
  EXPECT_EQ(parse(zarray({{"dimension_separator", "\"/\""}})).keys.separator, '/');
  EXPECT_EQ(parse(zarray({{"dimension_separator", "\".\""}})).keys.separator, '.');
  EXPECT_EQ(parse(zarray({{"dimension_separator", "null"}})).keys.separator, '.');
  reason_for(zarray({{"dimension_separator", "\"-\""}}));
}

TEST(ZarrMetadata, FortranOrderMattersOnlyWithTwoLongAxes) {
  EXPECT_FALSE(parse(zarray({{"order", "\"F\""}})).variable.stored_order.empty());
  EXPECT_TRUE(parse(zarray({{"order", "\"F\""}, {"chunks", "[1, 10]"}})).variable.stored_order.empty());
  EXPECT_TRUE(parse(zarray({{"order", "\"F\""}, {"shape", "[]"}, {"chunks", "[]"}})).variable.stored_order.empty());
  EXPECT_TRUE(parse(zarray({{"order", ""}})).variable.stored_order.empty());
  reason_for(zarray({{"order", "\"A\""}}));
}

TEST(ZarrMetadata, FillValuesAreShownAsReadersTakeThem) {
  const auto shown = [](const char* dtype, const char* fill_value) {
    return print_json(parse(zarray({{"dtype", dtype}, {"fill_value", fill_value}})).variable.fill_value);
  };
  EXPECT_EQ(shown("\"<f4\"", "0.10000000149011612"), "0.10000000149011612");
  EXPECT_EQ(shown("\"<f4\"", "NaN"), "\"NaN\"");
  EXPECT_EQ(shown("\"<f4\"", "\"NaN\""), "\"NaN\"");
  EXPECT_EQ(shown("\"<f8\"", "-Infinity"), "\"-Infinity\"");
  EXPECT_EQ(shown("\"<f8\"", "null"), "null");
  EXPECT_EQ(shown("\"<i8\"", "\"12\""), "12");
  EXPECT_EQ(shown("\"|b1\"", "false"), "false");
  EXPECT_EQ(shown("\"|S1\"", "\"x\""), "\"eA==\"");
  EXPECT_EQ(shown("\"|S3\"", "0"), "\"\"");
  EXPECT_EQ(shown("\"<U3\"", "\"ab\""), "\"ab\"");
  EXPECT_EQ(shown("\"|V2\"", "\"AQI=\""), "\"AQI=\"");
  EXPECT_EQ(shown("[[\"a\", \"<i2\"]]", "\"AQI=\""), "\"AQI=\"");
  EXPECT_EQ(shown("\"<c8\"", "[1, \"NaN\"]"), "[1.0, \"NaN\"]");
  EXPECT_NE(reason_for(zarray({{"fill_value", "\"x\""}})).find("fill_value"), std::string::npos);
}

TEST(ZarrMetadata, AnUndefinedTimeIsNone) {
  for (const char* dtype : {"\"<M8[ns]\"", "\">M8[D]\"", "\"<m8[s]\""}) {
    const Variable variable = parse(zarray({{"dtype", dtype}, {"fill_value", "null"}})).variable;
    EXPECT_TRUE(variable.fill_value.is_null());
    EXPECT_TRUE(variable.is_fill_undefined);
    EXPECT_EQ(fill_json(variable.type, variable.fill), std::numeric_limits<int64_t>::min()) << dtype;
  }
  EXPECT_EQ(parse(zarray({{"dtype", "\"<i8\""}, {"fill_value", "null"}})).variable.fill, std::vector<std::byte>(8));
}

TEST(ZarrMetadata, AVersionMayBeAText) {
  EXPECT_EQ(dtype_of(parse(zarray({{"zarr_format", "\"2\""}}))), "\"<i4\"");
  EXPECT_TRUE(check_group(R"({"zarr_format": "2"})"));
  reason_for(zarray({{"zarr_format", "\"3\""}}));
  reason_for(zarray({{"zarr_format", "\"2.0\""}}));
}

TEST(ZarrMetadata, TypesMayBeNamedAsNumpyTakesThem) {
  EXPECT_EQ(dtype_of(parse(zarray({{"dtype", "\"int16\""}}))), "\"<i2\"");
  EXPECT_EQ(dtype_of(parse(zarray({{"dtype", "\"=u2\""}}))), "\"<u2\"");
}

TEST(ZarrMetadata, ObjectsNeedACodec) {
  const auto changes = [](const char* filters, const char* fill_value) {
    return zarray({{"dtype", "\"|O\""}, {"filters", filters}, {"fill_value", fill_value}});
  };
  const Array array = parse(changes(R"([{"id": "vlen-utf8"}])", "\"ab\""));
  EXPECT_EQ((*array.variable.object_codec)["id"], "vlen-utf8");
  EXPECT_TRUE(array.variable.filters.empty());
  EXPECT_FALSE(array.variable.chunk_bytes);
  EXPECT_EQ(*array.variable.fill_value, "ab");
  EXPECT_EQ(array.variable.fill.size(), 6U);
  EXPECT_EQ(array.variable.fill[0], std::byte{2});
  EXPECT_EQ(parse(changes(R"([{"id": "vlen-utf8"}])", "0")).variable.fill, std::vector<std::byte>(4));
  EXPECT_EQ(parse(changes(R"([{"id": "json2"}, {"id": "zlib", "level": 1}])", "null")).variable.filters.size(), 1U);
  reason_for(changes("null", "\"\""));
  reason_for(changes("[]", "\"\""));
  reason_for(changes("[{}]", "\"\""));
}

TEST(ZarrMetadata, ObjectsInFortranOrderAreReorderedOrRefused) {
  const auto with = [](const char* codec) {
    return parse(zarray({{"dtype", "\"|O\""},
                         {"filters", fmt::format(R"([{{"id": "{}"}}])", codec)},
                         {"order", "\"F\""},
                         {"fill_value", "null"}}));
  };
  EXPECT_FALSE(with("vlen-utf8").variable.unreadable);
  ASSERT_TRUE(with("pickle").variable.unreadable);
  EXPECT_EQ(with("pickle").variable.unreadable->code, EOPNOTSUPP);
}

TEST(ZarrMetadata, EmptyDimensions) {
  const Array array = parse(zarray({{"shape", "[0, 25]"}, {"chunks", "[0, 10]"}}));
  EXPECT_EQ(array.variable.grid.count(), 0U);
  EXPECT_EQ(array.variable.grid.chunks(), (Lengths{1, 10}));
}

TEST(ZarrMetadata, WhatIsWrongIsSaid) {
  EXPECT_EQ(reason_for("[]"), ".zarray: no JSON object");
  EXPECT_EQ(reason_for(""), ".zarray: JSON: expected a value at line 1 column 1, where the text ends");
  EXPECT_EQ(reason_for(zarray({{"zarr_format", "3"}})), ".zarray: \"zarr_format\" is 3, not 2");
  EXPECT_EQ(reason_for(zarray({{"zarr_format", ""}})), ".zarray: \"zarr_format\" is null, not 2");
  EXPECT_EQ(reason_for(zarray({{"shape", ""}})), ".zarray: \"shape\" is not a list of lengths");
  EXPECT_EQ(reason_for(zarray({{"shape", "[-1, 2]"}})), ".zarray: \"shape\" is not a list of lengths");
  EXPECT_EQ(reason_for(zarray({{"chunks", "[10]"}})), ".zarray: a shape of 2 dimensions with chunks of 1 dimensions");
  EXPECT_EQ(reason_for(zarray({{"chunks", "[0, 10]"}})), ".zarray: chunks of length 0");
  EXPECT_EQ(reason_for(zarray({{"dtype", "\"<i3\""}})), ".zarray: \"<i3\" is not a numpy type of Zarr v2");
  EXPECT_EQ(reason_for(zarray({{"shape", "[18446744073709551615, 18446744073709551615]"}})),
            ".zarray: more chunks than can be counted in 60 bits");
}

TEST(ZarrMetadata, ChunksBeyondTheLimitAreDescribedButNotRead) {
  const Array array = parse(zarray({{"chunks", "[20000, 20000]"}}));
  EXPECT_EQ(array.variable.chunk_bytes, 1600000000U);
  ASSERT_TRUE(array.variable.unreadable);
  EXPECT_EQ(array.variable.unreadable->code, EOPNOTSUPP);
  EXPECT_FALSE(parse(zarray({{"chunks", "[16384, 16384]"}})).variable.unreadable);
  reason_for(zarray({{"chunks", "[1073741824, 1073741824]"}, {"dtype", "\"|V10000000\""}}));
}

TEST(ZarrMetadata, ElementsBeyondTheLimitAreRefused) {
  reason_for(zarray({{"dtype", "\"|S8388609\""}, {"chunks", "[1, 1]"}}));
  EXPECT_EQ(parse(zarray({{"dtype", "\"|S8388608\""}, {"chunks", "[1, 1]"}})).variable.fill.size(), kMaxElementBytes);
}

TEST(ZarrMetadata, AttributesThatAreNoObjectAreAnError) {
  EXPECT_EQ(reason_for(zarray(), "[1]"), ".zattrs: no JSON object");
  EXPECT_NE(reason_for(zarray(), "{\"a\": }").find(".zattrs: JSON: expected a value"), std::string::npos);
  EXPECT_FALSE(parse_attributes("nonsense"));
  EXPECT_EQ(parse_attributes(R"({"a": NaN, "_nczarr_group": {}, "_NCZARR_ATTR": {}, "b": 1})")->size(), 2U);
}

TEST(ZarrMetadata, Groups) {
  EXPECT_TRUE(check_group(R"({"zarr_format": 2})"));
  EXPECT_EQ(check_group(R"({"zarr_format": 3})").error().code, EOPNOTSUPP);
  EXPECT_EQ(check_group("x").error().code, EIO);
}

// NCZarr ------------------------------------------------------------------------------------------------------------

const std::string kRefs = R"({"dimrefs": ["/y", "/g/x"], "storage": "chunked"})";

void expect_hidden(const Array& array, size_t attributes) {
  EXPECT_EQ(array.variable.attributes.size(), attributes);
  for (const Attribute& attribute : array.variable.attributes)
    EXPECT_EQ(attribute.name.find("czarr"), std::string::npos) << attribute.name;
}

TEST(Nczarr, Version480KeepsReferencesInAnObject) {
  const Array array = parse(zarray(), R"({"units": "K"})", kRefs);
  EXPECT_EQ(array.variable.dimensions, (Names{"y", "x"}));
  expect_hidden(array, 1);
  EXPECT_FALSE(parse(zarray(), std::nullopt, "no json").variable.dimensions);
}

TEST(Nczarr, Version481HasUpperCaseKeys) {
  const Array array =
      parse(zarray({{"_NCZARR_ARRAY", kRefs}}), R"({"units": "K", "_NCZARR_ATTR": {"types": {"units": "<U1"}}})");
  EXPECT_EQ(array.variable.dimensions, (Names{"y", "x"}));
  expect_hidden(array, 1);
}

TEST(Nczarr, Version491HasLowerCaseKeys) {
  const Array array = parse(zarray({{"_nczarr_array", kRefs}}), R"({"units": "K", "_nczarr_attr": {"types": {}}})");
  EXPECT_EQ(array.variable.dimensions, (Names{"y", "x"}));
  expect_hidden(array, 1);
}

TEST(Nczarr, Version493KeepsThemInTheAttributes) {
  const Array array = parse(zarray(), R"({"units": "K", "_nczarr_array": {"dimension_references": ["/y", "/g/x"],
      "storage": "chunked"}, "_nczarr_attr": {"types": {}}, "_nczarr_maxstrlen": 4})");
  EXPECT_EQ(array.variable.dimensions, (Names{"y", "x"}));
  expect_hidden(array, 1);
}

TEST(Nczarr, ArrayDimensionsComeFirst) {
  const Array array = parse(zarray({{"_nczarr_array", kRefs}}), R"({"_ARRAY_DIMENSIONS": ["a", "b"]})");
  EXPECT_EQ(array.variable.dimensions, (Names{"a", "b"}));
  // Invalid references are ignored.
  EXPECT_FALSE(parse(zarray({{"_nczarr_array", R"({"dimrefs": ["/y"]})"}})).variable.dimensions);
  EXPECT_FALSE(parse(zarray({{"_nczarr_array", R"({"dimrefs": ["/y", 3]})"}})).variable.dimensions);
}

TEST(Nczarr, ScalarsLoseTheirDimensionOfOne) {
  const std::vector<std::pair<std::string, std::string>> one = {{"shape", "[1]"}, {"chunks", "[1]"}};
  auto with = [&](const char* key, const char* value, const char* zattrs) {
    auto changes = one;
    changes.emplace_back(key, value);
    return parse(zarray(changes), zattrs);
  };
  for (const Array& array :
       {with("_NCZARR_ARRAY", R"({"dimrefs": [], "storage": "scalar"})", R"({"_ARRAY_DIMENSIONS": []})"),
        with("_nczarr_array", R"({"dimrefs": [], "storage": "scalar"})", R"({"_ARRAY_DIMENSIONS": ["_scalar_"]})"),
        with("order", "\"C\"",
             R"({"_nczarr_array": {"dimension_references": [], "scalar": 1, "storage": "chunked"}})")}) {
    EXPECT_EQ(array.variable.grid.rank(), 0U);
    EXPECT_EQ(array.variable.grid.name_of(0), "0");
    EXPECT_EQ(array.variable.dimensions, Names{});
    EXPECT_TRUE(array.variable.attributes.empty());
  }
  // A dimension of length one is none.
  const Array array = with("_nczarr_array", R"({"dimrefs": ["/one"], "storage": "chunked"})", "{}");
  EXPECT_EQ(array.variable.grid.rank(), 1U);
  EXPECT_EQ(array.variable.dimensions, Names{"one"});
}

TEST(Nczarr, EarlyCharactersAreBytes) {
  const Array array =
      parse(zarray({{"_NCZARR_ARRAY", kRefs}, {"dtype", "\"<U1\""}, {"fill_value", "\"x\""}}), R"({"units": "K"})");
  EXPECT_EQ(dtype_of(array), "\"|S1\"");
  EXPECT_EQ(array.variable.chunk_bytes, 100U);
  EXPECT_EQ(array.variable.fill, std::vector<std::byte>{std::byte{'x'}});
  EXPECT_EQ(*array.variable.fill_value, "eA==");
  EXPECT_FALSE(array.may_be_narrow_text);
  EXPECT_EQ(dtype_of(parse(zarray({{"dtype", "\"<U1\""}, {"fill_value", "null"}}), std::nullopt, kRefs)), "\"|S1\"");
  // Arrays of other writers have Unicode.
  EXPECT_EQ(dtype_of(parse(zarray({{"dtype", "\"<U1\""}, {"fill_value", "\"x\""}}))), "\"<U1\"");
  EXPECT_EQ(dtype_of(parse(zarray({{"_nczarr_array", kRefs}, {"dtype", "\">S1\""}, {"fill_value", "\"\""}}))),
            "\"|S1\"");
}

TEST(Nczarr, PureZarrOfEarlyReleasesIsToldByTheSizeOfAChunk) {
  Array array = parse(zarray({{"dtype", "\"<U1\""}, {"fill_value", "\"x\""}}));
  ASSERT_TRUE(array.may_be_narrow_text);
  narrow_text(array);
  EXPECT_EQ(dtype_of(array), "\"|S1\"");
  EXPECT_EQ(array.variable.chunk_bytes, 100U);
  EXPECT_EQ(*array.variable.fill_value, "eA==");
  EXPECT_FALSE(parse(zarray({{"dtype", "\"<U2\""}, {"fill_value", "null"}})).may_be_narrow_text);
  EXPECT_FALSE(
      parse(zarray({{"dtype", "\"<U1\""}, {"fill_value", "null"}, {"compressor", R"({"id": "zlib", "level": 1})"}}))
          .may_be_narrow_text);
}

TEST(Nczarr, BigEndianIsStoredLittleEndianBefore493) {
  const auto big = [](const char* key) { return dtype_of(parse(zarray({{key, kRefs}, {"dtype", "\">i4\""}}))); };
  EXPECT_EQ(big("_NCZARR_ARRAY"), "\"<i4\"");
  EXPECT_EQ(big("_nczarr_array"), "\"<i4\"");
  EXPECT_EQ(dtype_of(parse(zarray({{"dtype", "\">i4\""}}), std::nullopt, kRefs)), "\"<i4\"");
  const std::string in_attributes =
      R"({"_nczarr_array": {"dimension_references": ["/y", "/x"], "storage": "chunked"}})";
  EXPECT_EQ(dtype_of(parse(zarray({{"dtype", "\">i4\""}}), in_attributes)), "\">i4\"");
  EXPECT_EQ(dtype_of(parse(zarray({{"dtype", "\">i4\""}}))), "\">i4\"");
}

TEST(Nczarr, TypesOfAttributesAreThoseNoted) {
  const std::string zattrs = R"({"f": 1, "fs": [1, 2.5, "NaN"], "inf": "-Infinity", "text": "NaN", "number": 5, "i": 2,
      "object": {"a": 1}, "list": [1, 2], "free": 7, "_NCProperties": "version=2", "_nczarr_attr": {"types": {"f": "<f4",
      "fs": "<f8", "inf": "<f4", "text": ">S1", "number": ">S1", "i": "<i2", "object": "|J0", "list": ">S1"}}})";
  const auto shown = [&](const Array& array, const char* name) {
    for (const Attribute& one : array.variable.attributes)
      if (one.name == name) return print_json(one.value);
    return std::string();
  };
  const Array array = parse(zarray(), zattrs);
  EXPECT_EQ(array.variable.attributes.size(), 9U);
  EXPECT_EQ(shown(array, "f"), "1.0");
  EXPECT_EQ(shown(array, "fs"), "[1.0, 2.5, NaN]");
  EXPECT_EQ(shown(array, "inf"), "-Infinity");
  EXPECT_EQ(shown(array, "text"), "\"NaN\"");
  EXPECT_EQ(shown(array, "number"), "\"5\"");
  EXPECT_EQ(shown(array, "i"), "2");
  EXPECT_EQ(shown(array, "object"), R"({"a": 1})");
  EXPECT_EQ(shown(array, "list"), "[1, 2]");
  EXPECT_EQ(shown(array, "free"), "7");
  // 4.8.0 stores them in a separate object.
  const auto early = parse_array({zarray(), R"({"f": 1, "types": {"f": 1}})", kRefs, R"({"types": {"f": "<f4"}})"});
  EXPECT_EQ(shown(*early, "f"), "1.0");
  EXPECT_EQ(shown(*parse_array({zarray(), R"({"f": 1})", kRefs, "no json"}), "f"), "1");
  EXPECT_EQ(print_json((*parse_attributes(R"({"f": 1})", R"({"types": {"f": "<f4"}})"))[0].value), "1.0");
}

TEST(Nczarr, TheDefaultFillOfDoublesIsTheOneInTheChunks) {
  const auto fill = [](const char* dtype, const char* key) {
    return parse(zarray({{key, kRefs}, {"dtype", dtype}, {"fill_value", "9.96921e+36"}})).variable;
  };
  double in_chunks = 9.9692099683868690e+36;  // NC_FILL_DOUBLE
  const Variable doubles = fill("\"<f8\"", "_nczarr_array");
  EXPECT_EQ(std::memcmp(doubles.fill.data(), &in_chunks, 8), 0);
  EXPECT_EQ(*doubles.fill_value, in_chunks);
  EXPECT_EQ(*fill("\"<f8\"", "other").fill_value, 9.96921e+36);
  // As a float it is the same, in any print format.
  const float as_float = 9.9692099683868690e+36F;
  EXPECT_EQ(std::memcmp(fill("\"<f4\"", "_nczarr_array").fill.data(), &as_float, 4), 0);
}

TEST(ZarrMetadata, CodecsThatOthersMisreadAreKnown) {
  const auto is_wrong = [](const char* filters, const char* compressor) {
    return parse(zarray({{"filters", filters}, {"compressor", compressor}})).has_wrong_codecs;
  };
  EXPECT_TRUE(is_wrong(R"([{"id": "shuffle", "elementsize": 0}])", "null"));
  EXPECT_TRUE(is_wrong(R"([{"id": "shuffle", "elementsize": "0"}])", "null"));
  EXPECT_TRUE(is_wrong(R"([{"id": "shuffle"}])", "null"));
  EXPECT_TRUE(is_wrong("null", R"({"id": "zlib", "level": "5"})"));
  EXPECT_TRUE(is_wrong("null", R"({"id": "bz2"})"));
  EXPECT_FALSE(is_wrong(R"([{"id": "shuffle", "elementsize": 4}])", R"({"level": 5, "id": "zlib"})"));
  EXPECT_FALSE(is_wrong(R"([{"id": "shuffle", "elementsize": 2}, {"id": "delta", "dtype": "<i4"}])", "null"));
  EXPECT_FALSE(is_wrong("null", R"({"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": -1, "blocksize": 0})"));
  EXPECT_FALSE(is_wrong("null", R"({"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 2})"));
  EXPECT_FALSE(is_wrong("null", R"({"id": "zstd", "level": -5, "checksum": false})"));
  EXPECT_FALSE(is_wrong("null", R"({"id": "lz4", "acceleration": 1})"));
  EXPECT_FALSE(is_wrong(R"([{"id": "fletcher32"}])", R"({"id": "unknown-codec", "level": "5"})"));
}

TEST(Nczarr, TextThatWouldPassForBase64IsText) {
  const Array array = parse(zarray({{"_nczarr_array", kRefs}, {"dtype", "\"|S8\""}, {"fill_value", "\"abcd\""}}));
  EXPECT_EQ(array.variable.fill[3], std::byte{'d'});
  EXPECT_EQ(*array.variable.fill_value, "YWJjZA==");
}

TEST(ZarrMetadata, NoDamageCrashesTheParser) {
  const std::string good = zarray({{"compressor", R"({"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1})"},
                                   {"filters", R"([{"id": "delta", "dtype": "<i4"}])"},
                                   {"dtype", R"([["a", "<i2", [2]], ["b", "|S4"]])"},
                                   {"fill_value", "\"AQIDBAUGBwg=\""},
                                   {"_nczarr_array", kRefs}});
  std::mt19937 random(6);
  static constexpr std::string_view kBytes = "{}[]\",:0123456789eE+-. \\untrfalse|<>";
  for (int i = 0; i < 10000; ++i) {
    std::string text = good;
    for (size_t k = random() % 4 + 1; k > 0; --k) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0: text[at] = kBytes[random() % kBytes.size()]; break;
        case 1: text.erase(at, random() % 8); break;
        default: text.insert(at, 1, kBytes[random() % kBytes.size()]); break;
      }
    }
    const auto array = parse_array({text, text, text});
    if (array) {
      ASSERT_LE(array->variable.fill.size(), kMaxElementBytes);
    } else {
      ASSERT_FALSE(array.error().reason.empty());
    }
  }
}

}  // namespace
}  // namespace codecfs::zarr
