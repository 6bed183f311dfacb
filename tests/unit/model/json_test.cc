// JSON as Python's json module reads and prints it, except for the limits for malicious input.

#include "model/json.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace codecfs {
namespace {

Json parse(std::string_view text) {
  auto result = parse_json(text);
  EXPECT_TRUE(result) << text << ": " << (result ? "" : result.error().reason);
  return result ? *result : Json();
}

std::string reason_for(std::string_view text) {
  const auto result = parse_json(text);
  EXPECT_FALSE(result) << text;
  if (result) return "";
  EXPECT_EQ(result.error().code, EINVAL);
  return result.error().reason;
}

std::string through(std::string_view text, int indent = -1) { return print_json(parse(text), indent); }

TEST(Json, PrintsAsPythonDoes) {
  // Left: input; right: json.dumps(json.loads(input), ensure_ascii=False).
  const std::pair<const char*, const char*> cases[] = {
      {R"({"b":1,"a":[1,2,{"x":null}],"c":true,"d":false})",
       R"({"b": 1, "a": [1, 2, {"x": null}], "c": true, "d": false})"},
      {"[]", "[]"},
      {" { } ", "{}"},
      {"[1.0, 1e5, 1E16, 1e15, 123456789012345680.0, 1e-4, 1e-5, 0.1, -0.0, 5e-324, 1.7976931348623157e308]",
       "[1.0, 100000.0, 1e+16, 1000000000000000.0, 1.2345678901234568e+17, 0.0001, 1e-05, 0.1, -0.0, 5e-324, "
       "1.7976931348623157e+308]"},
      {"[0, -1, 18446744073709551615, -9223372036854775808, 9223372036854775808]",
       "[0, -1, 18446744073709551615, -9223372036854775808, 9223372036854775808]"},
      {R"("\u00e9\u4e2d\ud83d\ude00\n\t\"\\\/\b\f\r\u0001\u007f")",
       R"("\u00e9\u4e2d\ud83d\ude00\n\t\"\\/\b\f\r\u0001\u007f")"},
      {"\"café\"", R"("caf\u00e9")"},
      {R"({"a":1,"b":2,"a":3})", R"({"a": 3, "b": 2})"},
  };
  for (const auto& [text, printed] : cases) EXPECT_EQ(through(text), printed);
}

TEST(Json, IndentsAsPythonDoes) {
  EXPECT_EQ(
      through(R"({"a":[1,[]],"b":{},"c":{"d":null}})", 4),
      "{\n    \"a\": [\n        1,\n        []\n    ],\n    \"b\": {},\n    \"c\": {\n        \"d\": null\n    }\n}");
}

TEST(Json, NanAndInfinityAreNumbersAndTheirNamesInStringsAreNot) {
  const Json value = parse(R"([NaN, Infinity, -Infinity, "NaN", "-Infinity", "a\"NaN,Infinity", {"NaN": NaN}])");
  EXPECT_TRUE(value[0].is_number_float() && std::isnan(value[0].get<double>()));
  EXPECT_EQ(value[1], std::numeric_limits<double>::infinity());
  EXPECT_EQ(value[2], -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(value[3].is_string());
  EXPECT_EQ(print_json(value), R"([NaN, Infinity, -Infinity, "NaN", "-Infinity", "a\"NaN,Infinity", {"NaN": NaN}])");
}

TEST(Json, NumbersThatNoTypeHoldsBecomeTheNearestDouble) {
  EXPECT_EQ(through("[1e999, -1e999, 1e-999, 0e999, 0.0000001e400]"), "[Infinity, -Infinity, 0.0, 0.0, Infinity]");
  EXPECT_EQ(through("18446744073709551616.0"), "1.8446744073709552e+19");
  EXPECT_EQ(through("0." + std::string(400, '0') + "1"), "0.0");
  EXPECT_EQ(through("1e-99999999999999999999"), "0.0");
}

TEST(Json, IntegersAreNeverRounded) {
  const std::string longest(400, '9');
  for (const std::string& text : {std::string("18446744073709551616"), std::string("-9223372036854775809"), longest,
                                  "{\"a\": [1, " + longest + "]}"})
    EXPECT_EQ(through(text), text);
  EXPECT_TRUE(parse("18446744073709551615").is_number_unsigned());
  EXPECT_EQ(parse("[36893488147419103232]"), parse("[36893488147419103232]"));
  EXPECT_NE(parse("36893488147419103232"), parse("36893488147419103233"));
  EXPECT_EQ(rounded_number(parse("-36893488147419103232")), -36893488147419103232.0);
  EXPECT_EQ(rounded_number(parse(longest)), std::numeric_limits<double>::infinity());
  EXPECT_EQ(rounded_number(parse("\"1\"")), std::nullopt);
}

TEST(Json, EveryDoubleReadsBack) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200000; ++i) {
    const auto value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    const std::string text = print_json(value);
    const Json back = parse(text);
    ASSERT_TRUE(back.is_number_float()) << text;
    ASSERT_EQ(std::bit_cast<uint64_t>(back.get<double>()), std::bit_cast<uint64_t>(value)) << text;
  }
}

TEST(Json, AFloatPrintsShortAndReadsBackAsTheSameFloat) {
  EXPECT_EQ(print_json(shortest_double(0.1F)), "0.1");
  EXPECT_EQ(print_json(shortest_double(9.96921e+36F)), "9.96921e+36");
  std::mt19937 random(2);
  for (int i = 0; i < 200000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isfinite(value)) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(static_cast<float>(shortest_double(value))), std::bit_cast<uint32_t>(value));
  }
  EXPECT_TRUE(std::isnan(shortest_double(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Json, ErrorsSayWhere) {
  EXPECT_EQ(reason_for("{\n  \"a\": nul\n}"), "JSON: expected a value at line 2 column 8");
  EXPECT_EQ(reason_for("[1, 2"), "JSON: expected ',' or ']' at line 1 column 6, where the text ends");
  EXPECT_EQ(reason_for("[1] x"), "JSON: expected the end at line 1 column 5");
  EXPECT_EQ(reason_for(""), "JSON: expected a value at line 1 column 1, where the text ends");
}

TEST(Json, RefusesWhatIsNoJson) {
  for (const char* bad : {"[1,]",        "{\"a\":1,}",
                          "{a:1}",       "01",
                          "-01",         "-",
                          "+1",          ".5",
                          "1.",          "1e",
                          "1e+",         "'a'",
                          "\"a",         "\"\\x\"",
                          "\"\\u12\"",   "\"\\u-123\"",
                          "\"\\ud800\"", "\"\\ud800\\u0041\"",
                          "\"\\udc00\"", "\"\x01\"",
                          "\"\xFF\"",    "\"\xED\xA0\x80\"",
                          "nan",         "-NaN",
                          "Inf",         "[1 2]",
                          "{\"a\" 1}",   "[",
                          "{",           "{\"a\":",
                          "tru"})
    reason_for(bad);
  reason_for(std::string_view("\0", 1));
}

TEST(Json, NestingIsBounded) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse_json(nested(kMaxJsonDepth)));
  EXPECT_NE(reason_for(nested(kMaxJsonDepth + 2)).find("nested too deep"), std::string::npos);
  reason_for(std::string(10'000'000, '['));
}

TEST(Json, ManyKeys) {
  std::string text = "{";
  for (int i = 0; i < 200000; ++i) text += (i > 0 ? ",\"k" : "\"k") + std::to_string(i) + "\":" + std::to_string(i);
  text += "}";
  EXPECT_EQ(parse(text).size(), 200000U);
}

TEST(Json, StringsThatAreNotUtf8ArePrintedWithAMark) {
  EXPECT_EQ(print_json(Json("a\xFFz")), R"("a\ufffdz")");
  EXPECT_EQ(print_json(Json(std::string("a\0b", 3))), "\"a\\u0000b\"");
}

TEST(Json, AByteOrderMarkIsSkipped) { EXPECT_EQ(through("\xEF\xBB\xBF{}"), "{}"); }

TEST(Json, EachBeginningOfATextMayBecomeOne) {
  const std::string_view text =
      "{\"a\": [true, false, null, NaN, -Infinity, Infinity, -12.5e-3, 0], \"\\u00e9\\ud83d\\ude00\\n\": "
      "\"\u00e9\U0001f600\", "
      "\"o\": {}, \"l\": [ ] }";
  ASSERT_TRUE(parse_json(text)) << parse_json(text).error().reason;
  for (size_t size = 0; size < text.size(); ++size)
    EXPECT_TRUE(is_beginning_of_json(text.substr(0, size))) << text.substr(0, size);
  EXPECT_FALSE(is_beginning_of_json(text)) << "it is one";
}

TEST(Json, WhatNoMoreTextCanCompleteIsNoBeginning) {
  for (const char* text :
       {"garbage", "[1,,", "{\"a\": 1,}", "{\"a\" 1", "{} x", "[1 2", "{a", "\"\\x\", ", "tru\n", "[nule", "[01, "})
    EXPECT_FALSE(is_beginning_of_json(text)) << text;
}

TEST(Json, RefusesTextsThatGrowInMemory) {
  const auto repeated = [](const char* item, size_t count) {
    std::string text = "[";
    for (size_t i = 0; i < count; ++i) text += fmt::format("{}{}", i == 0 ? "" : ",", item);
    return text + "]";
  };
  EXPECT_TRUE(parse_json(repeated("0", 900'000))) << "numbers take 16 bytes each";
  for (const char* item : {"0", "[]", "{}", "\"\"", "{\"a\":0}"}) {
    const auto refused = parse_json(repeated(item, 1'100'000));
    ASSERT_FALSE(refused) << item;
    EXPECT_EQ(refused.error().code, EFBIG) << item;
  }
  EXPECT_TRUE(parse_json("\"" + std::string(16'000'000, 'x') + "\""));
  EXPECT_EQ(parse_json("\"" + std::string(17'000'000, 'x') + "\"").error().code, EFBIG);
}

}  // namespace
}  // namespace codecfs
