#include "model/float_attributes.h"

#include <gtest/gtest.h>

#include <limits>

#include "model/json.h"

namespace codecfs {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string text_of(const std::vector<Attribute>& attributes) {
  Json all = Json::object();
  for (const Attribute& attribute : attributes) all[attribute.name] = attribute.value;
  return print_json(all);
}

TEST(FloatAttributes, AreTextsThatAreListed) {
  std::vector<Attribute> attributes{
      {"one", kNan}, {"list", Json{1.5, -kInfinity}}, {"deep", Json{{"in", Json{{"it", kInfinity}}}}}, {"text", "NaN"}};
  tell_floats(attributes, kFillAttribute);
  EXPECT_EQ(text_of(attributes),
            R"({"one": "NaN", "list": [1.5, "-Infinity"], "deep": {"in": {"it": "Infinity"}}, "text": "NaN", )"
            R"("_codecfs_float_attributes": "[\"deep\", \"list\", \"one\"]"})");
  restore_floats(attributes);
  EXPECT_EQ(text_of(attributes),
            R"({"one": NaN, "list": [1.5, -Infinity], "deep": {"in": {"it": Infinity}}, "text": "NaN"})");
}

TEST(FloatAttributes, NothingIsListedWhereThereIsNothing) {
  std::vector<Attribute> attributes{{"a", 1}, {kFillAttribute, kNan}, {"b", Json{"NaN", kNan}}};
  const std::string before = text_of(attributes);
  tell_floats(attributes, kFillAttribute);
  EXPECT_EQ(text_of(attributes), before) << "the text would become a number";
  restore_floats(attributes);
  EXPECT_EQ(text_of(attributes), before);
}

TEST(FloatAttributes, AListThatIsThereIsKept) {
  std::vector<Attribute> attributes{{"a", "NaN"}, {kFloatAttributes, R"(["a", "gone", "c"])"}, {"b", kNan}, {"c", "x"}};
  tell_floats(attributes, "");
  EXPECT_EQ(float_attributes(attributes), (std::set<std::string>{"a", "b"}));
  for (const Json& damaged : {Json("["), Json(5), Json(R"({"a": 1})"), Json("[1, null]")})
    EXPECT_TRUE(float_attributes(std::vector<Attribute>{{kFloatAttributes, damaged}}).empty()) << damaged;
}

}  // namespace
}  // namespace codecfs
