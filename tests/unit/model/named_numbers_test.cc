#include "model/named_numbers.h"

#include <gtest/gtest.h>

namespace codecfs {
namespace {

Json json_of(std::string_view text) { return parse_json(text).value(); }

std::string v2_text(std::string_view zattrs, const char* type = nullptr) {
  Json json = json_of(zattrs);
  const DataType of = parse_dtype(type != nullptr ? type : "<i4").value();
  name_numbers(json, {}, type != nullptr ? &of : nullptr);
  return print_json(json);
}

std::string v3_text(std::string_view attributes) {
  Json json = json_of(attributes);
  name_zarr3_numbers(json);
  return print_json(json);
}

TEST(NamedNumbers, AreTextsAndNoted) {
  EXPECT_EQ(v2_text(R"({"a": NaN, "b": [1.5, -Infinity], "c": "NaN", "d": 5})"),
            R"({"a": "NaN", "b": [1.5, "-Infinity"], "c": "NaN", "d": 5, )"
            R"("_nczarr_attr": {"types": {"a": "<f8", "b": "<f8"}}})");
  EXPECT_EQ(v3_text(R"({"a": NaN, "b": [[1.5, -Infinity]], "c": "NaN"})"),
            R"({"a": "NaN", "b": [[1.5, "-Infinity"]], "c": "NaN", "_FloatAttributes": ["a", "b"]})");
  for (const char* plain : {R"({"a": 1.0, "b": "NaN", "c": ["Infinity"]})", "{}"}) {
    EXPECT_EQ(v2_text(plain), plain);
    EXPECT_EQ(v3_text(plain), plain);
  }
}

TEST(NamedNumbers, FillValuesOfFloatsAreNotNoted) {
  EXPECT_EQ(v2_text(R"({"_FillValue": NaN})", "<f4"), R"({"_FillValue": "NaN"})");
  EXPECT_EQ(v2_text(R"({"_FillValue": [NaN, 0.0]})", "<c8"), R"({"_FillValue": ["NaN", 0.0]})");
  EXPECT_EQ(v2_text(R"({"_FillValue": NaN})", "<i4"),
            R"({"_FillValue": "NaN", "_nczarr_attr": {"types": {"_FillValue": "<f8"}}})");
}

TEST(NamedNumbers, OfObjectsAndMixedListsAreOnlyTexts) {
  EXPECT_EQ(v2_text(R"({"a": {"b": NaN}, "c": [NaN, "NaN"]})"), R"({"a": {"b": "NaN"}, "c": ["NaN", "NaN"]})");
  EXPECT_EQ(v3_text(R"({"a": {"b": NaN}, "c": [NaN, null]})"), R"({"a": {"b": "NaN"}, "c": ["NaN", null]})");
}

TEST(NamedNumbers, KeepTypesThatAreNoted) {
  Json json = json_of(R"({"_NCZARR_ATTR": {"types": {"a": ">f4", "b": ">i4"}}, "a": NaN, "b": NaN, "c": NaN})");
  const std::vector<Attribute> attributes = {{"c", Json(), "<f4"}};
  name_numbers(json, attributes);
  EXPECT_EQ(print_json(json), R"({"_NCZARR_ATTR": {"types": {"a": ">f4", "b": "<f8", "c": "<f4"}}, )"
                              R"("a": "NaN", "b": "NaN", "c": "NaN"})");
  for (const char* odd : {"5", R"({"types": 5})", R"({"types": {"a": 5}})", R"({"types": {"a": ""}})"})
    EXPECT_EQ(member(member(json_of(v2_text(fmt::format(R"({{"_nczarr_attr": {}, "a": NaN}})", odd))), "_nczarr_attr"),
                     "types"),
              json_of(R"({"a": "<f8"})"));
}

TEST(NamedNumbers, ComeBack) {
  Json json = json_of(R"({"a": "NaN", "b": [1.5, "-Infinity", ["Infinity"]], "c": "NaN", "d": "nan",
                        "_FloatAttributes": ["a", "b", "d", "e"]})");
  parse_zarr3_numbers(json);
  EXPECT_EQ(print_json(json), R"({"a": NaN, "b": [1.5, -Infinity, [Infinity]], "c": "NaN", "d": "nan"})");
  for (const char* odd : {R"({"_FloatAttributes": 5, "a": "NaN"})", R"({"_FloatAttributes": ["a", 5], "a": "NaN"})"}) {
    Json kept = json_of(odd);
    parse_zarr3_numbers(kept);
    EXPECT_EQ(print_json(kept), odd);
  }
}

TEST(NamedNumbers, AreTheSameText) {
  EXPECT_TRUE(is_same_text(json_of("[NaN, 1.0]"), json_of(R"(["NaN", 1.0])")));
  EXPECT_TRUE(is_same_text(json_of("NaN"), json_of("NaN")));
  EXPECT_FALSE(is_same_text(json_of("[NaN, 1.0]"), json_of("[NaN, 1]")));
  EXPECT_FALSE(is_same_text(json_of("NaN"), json_of("Infinity")));
}

}  // namespace
}  // namespace codecfs
