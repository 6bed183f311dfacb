// numpy's type names and Zarr's fill values. The vectors were made with numpy 1.24 and zarr-python 2.13 (dtype.str,
// Metadata2.encode_fill_value, tobytes).

#include "model/data_type.h"
#include "model/json.h"

#include <gtest/gtest.h>

#include <span>

namespace codecfs {
namespace {

Json json(std::string_view text) {
  auto result = parse_json(text);
  EXPECT_TRUE(result) << text;
  return result ? *result : Json();
}

DataType type_of(std::string_view dtype) {
  auto result = parse_dtype(json(dtype));
  EXPECT_TRUE(result) << dtype << ": " << (result ? "" : result.error().reason);
  return result ? *result : DataType();
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte b : bytes) text += fmt::format("{:02x}", std::to_integer<int>(b));
  return text;
}

std::vector<std::byte> unhex(std::string_view text) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  return bytes;
}

TEST(DataType, NamesComeBack) {
  for (const char* dtype : {R"("|b1")",
                            R"("|i1")",
                            R"("|u1")",
                            R"("<i2")",
                            R"(">i4")",
                            R"("<i8")",
                            R"(">u2")",
                            R"("<u4")",
                            R"(">u8")",
                            R"("<f2")",
                            R"(">f4")",
                            R"("<f8")",
                            R"("<f16")",
                            R"("<c8")",
                            R"(">c16")",
                            R"("<c32")",
                            R"("<M8[ns]")",
                            R"(">m8[25s]")",
                            R"("<M8")",
                            R"("<m8[D]")",
                            R"("|S1")",
                            R"("|S0")",
                            R"("<U5")",
                            R"(">U1")",
                            R"("|V8")",
                            R"("|O")",
                            R"([["a", "<i2"], ["b", ">f4"]])",
                            R"([["a", "<i2", [2, 3]], ["in", [["x", "|S4"], ["", "|V4"], ["", "|V2"]], [5]]])"})
    EXPECT_EQ(print_json(print_dtype(type_of(dtype))), dtype);
}

TEST(DataType, OtherSpellingsAreReadAsNumpyReadsThem) {
  const std::pair<const char*, const char*> cases[] = {{R"("<i1")", R"("|i1")"},
                                                       {R"(">u1")", R"("|u1")"},
                                                       {R"("|i4")", R"("<i4")"},
                                                       {R"(">S3")", R"("|S3")"},
                                                       {R"("<V4")", R"("|V4")"},
                                                       {R"("|O8")", R"("|O")"},
                                                       {R"([["a","<i2",3]])", R"([["a", "<i2", [3]]])"},
                                                       {R"("<M8[generic]")", R"("<M8")"}};
  for (const auto& [dtype, printed] : cases) EXPECT_EQ(print_json(print_dtype(type_of(dtype))), printed);
}

TEST(DataType, Sizes) {
  EXPECT_EQ(type_of(R"("<U5")").size, 20U);
  EXPECT_EQ(type_of(R"("|O")").size, 0U);
  const DataType type = type_of(R"([["a", "<i2", [2, 3]], ["in", [["x", "|S4"], ["", "|V4"]], [5]]])");
  EXPECT_EQ(type.size, 52U);
  EXPECT_EQ(type.members[0].size(), 12U);
  EXPECT_EQ(type.members[1].size(), 40U);
  EXPECT_EQ(type.order, ByteOrder::none);
  EXPECT_EQ(type_of(R"(">i4")").order, ByteOrder::big);
  EXPECT_EQ(type_of(R"("|S4")").order, ByteOrder::none);
}

TEST(DataType, RefusesWhatNumpyDoesNotHave) {
  for (const std::string& bad : {std::string(R"("i4")"),
                                 std::string(R"("<i3")"),
                                 std::string(R"("<i16")"),
                                 std::string(R"("<i")"),
                                 std::string(R"("<i-4")"),
                                 std::string(R"("<i4x")"),
                                 std::string(R"("<f1")"),
                                 std::string(R"("<c4")"),
                                 std::string(R"("<b2")"),
                                 std::string(R"("")"),
                                 std::string(R"("<")"),
                                 std::string(R"("<Q4")"),
                                 std::string(R"("<M4[ns]")"),
                                 std::string(R"("<M8[]")"),
                                 std::string(R"("<M8[0s]")"),
                                 std::string(R"("<M8[xs]")"),
                                 std::string(R"("<M8ns")"),
                                 std::string(R"("|S9999999999999")"),
                                 std::string(R"("|U400000000")"),
                                 std::string("4"),
                                 std::string("null"),
                                 std::string("[]"),
                                 std::string("{}"),
                                 std::string(R"([["a"]])"),
                                 std::string(R"(["a", "<i4"])"),
                                 std::string(R"([[1, "<i4"]])"),
                                 std::string(R"([["a", "<i4"], ["a", "<i4"]])"),
                                 std::string(R"([["a", "|O"]])"),
                                 std::string(R"([["a", "<i4", [-1]]])"),
                                 std::string(R"([["a", "<i4", [1.5]]])"),
                                 std::string(R"([["a", "|V1000000000"], ["b", "|V1000000000"]])"),
                                 std::string(R"([["a", "<i4", [100000, 100000]]])"),
                                 std::string(R"([["a", "<i4", [1], 2]])")}) {
    const auto result = parse_dtype(json(bad));
    ASSERT_FALSE(result) << bad;
    EXPECT_EQ(result.error().code, EINVAL);
  }
}

TEST(DataType, NestingIsBounded) {
  Json deep = "<i4";
  for (int i = 0; i < 32; ++i) deep = Json::array({Json::array({"a", deep})});
  EXPECT_TRUE(parse_dtype(deep));
  EXPECT_EQ(print_dtype(*parse_dtype(deep)), deep);
  deep = Json::array({Json::array({"a", deep})});
  EXPECT_EQ(parse_dtype(deep).error().code, EINVAL);
}

struct FillVector {
  const char* dtype;
  const char* fill_value;
  const char* bytes;
};

// zarr-python and codecfs write these identically.
constexpr FillVector kExact[] = {
    {R"("|b1")", "true", "01"},
    {R"("|b1")", "false", "00"},
    {R"("<i2")", "-5", "fbff"},
    {R"(">i2")", "-5", "fffb"},
    {R"("|u1")", "255", "ff"},
    {R"("|i1")", "-128", "80"},
    {R"("<u8")", "18446744073709551615", "ffffffffffffffff"},
    {R"(">i8")", "-9223372036854775808", "8000000000000000"},
    {R"(">f8")", "0.1", "3fb999999999999a"},
    {R"("<f2")", "65504.0", "ff7b"},
    {R"("<f4")", R"("NaN")", "0000c07f"},
    {R"("<f2")", R"("NaN")", "007e"},
    {R"("<f8")", R"("Infinity")", "000000000000f07f"},
    {R"(">f4")", R"("-Infinity")", "ff800000"},
    {R"("<f2")", R"("-Infinity")", "00fc"},
    {R"("<f4")", "-0.0", "00000080"},
    {R"("<c8")", "[1.0, 2.0]", "0000803f00000040"},
    {R"(">c16")", R"(["NaN", "Infinity"])", "7ff80000000000007ff0000000000000"},
    {R"("<M8[ns]")", "-9223372036854775808", "0000000000000080"},
    {R"(">M8[D]")", "11323", "0000000000002c3b"},
    {R"("<m8[s]")", "25", "1900000000000000"},
    {R"("|S5")", R"("YWI=")", "6162000000"},
    {R"("|S3")", R"("")", "000000"},
    {R"("<U5")", R"("é中😀")", "e90000002d4e000000f601000000000000000000"},
    {R"(">U3")", R"("Āb")", "000001000000006200000000"},
    {R"(">U2")", R"("bĀ")", "0000006200000100"},
    {R"("|V4")", R"("AQIAAA==")", "01020000"},
    {R"([["a", "<i2"], ["b", ">f4"]])", R"("AQBAIAAA")", "010040200000"},
};

TEST(FillValue, Vectors) {
  for (const auto& [dtype, fill_value, expected] : kExact) {
    const DataType type = type_of(dtype);
    const auto bytes = fill_bytes(type, json(fill_value));
    ASSERT_TRUE(bytes) << dtype << " " << fill_value << ": " << bytes.error().reason;
    EXPECT_EQ(hex(*bytes), expected) << dtype << " " << fill_value;
    EXPECT_EQ(print_json(fill_json(type, *bytes)), print_json(json(fill_value))) << dtype;
  }
}

TEST(FillValue, OtherFormsThatWritersUse) {
  const FillVector vectors[] = {
      {R"("<f4")", "0.10000000149011612", "cdcccc3d"},
      {R"("<f4")", "NaN", "0000c07f"},
      {R"("<f8")", "-Infinity", "000000000000f0ff"},
      {R"("<f4")", "0", "00000000"},
      {R"("<f4")", R"("1.5")", "0000c03f"},
      {R"("<f4")", "1e300", "0000807f"},
      {R"("<f16")", "0.1", "00d0ccccccccccccfb3f000000000000"},
      {R"("<i4")", "7.0", "07000000"},
      {R"("<u8")", "1e19", "0000e8890423c78a"},
      {R"("<i4")", R"("7")", "07000000"},
      {R"("|b1")", "1", "01"},
      {R"("|u1")", "true", "01"},
      {R"("<c8")", "0", "0000000000000000"},
      {R"("<c8")", "2", "0000004000000000"},
      {R"("<M8[ns]")", R"("NaT")", "0000000000000080"},
      {R"("|S1")", R"("x")", "78"},        // NCZarr's char
      {R"("|S1")", R"("")", "00"},         // NCZarr's NUL
      {R"("|S8")", R"("no base64")", ""},  // nine characters
      {R"("|S9")", R"("no base64")", "6e6f20626173653634"},
      {R"("|S3")", "0", "000000"},
      {R"("<U2")", "0", "0000000000000000"},
      {R"("|V4")", "0", "00000000"},
      {R"("|V4")", R"("AQI=")", "01020000"},
      {R"([["a", "<i2"]])", "0", "0000"},
  };
  for (const auto& [dtype, fill_value, expected] : vectors) {
    const auto bytes = fill_bytes(type_of(dtype), json(fill_value));
    EXPECT_EQ(bytes ? hex(*bytes) : "", expected) << dtype << " " << fill_value;
  }
}

TEST(FillValue, HalfPrecisionRoundsAsNumpyRounds) {
  const std::pair<double, uint16_t> vectors[] = {
      {1.0, 0x3c00},     {65519.999, 0x7bff}, {65520, 0x7c00},
      {2049, 0x6800},    {2051, 0x6802},      {0.333251953125 + 0x1p-13, 0x3556},
      {0.1, 0x2e66},     {2047.5, 0x6800},    {4095.9, 0x6c00},
      {5.96e-8, 0x0001}, {2.98e-8, 0x0000},   {2.99e-8, 0x0001},
      {-1e-9, 0x8000},   {0x1p-14, 0x0400},   {1023.5 / 1024 * 0x1p-14, 0x0400}};
  const DataType type = type_of(R"(">f2")");
  for (const auto& [value, half] : vectors)
    EXPECT_EQ(hex(*fill_bytes(type, value)), fmt::format("{:04x}", half)) << value;
}

TEST(FillValue, EveryHalfComesBack) {
  const DataType type = type_of(R"(">f2")");
  for (int half = 0; half <= 0xFFFF; ++half) {
    if ((half & 0x7C00) == 0x7C00 && (half & 0x3FF) != 0) continue;  // NaN has one spelling
    const auto bytes = unhex(fmt::format("{:04x}", half));
    ASSERT_EQ(*fill_bytes(type, fill_json(type, bytes)), bytes) << half;
  }
}

TEST(FillValue, RefusesWhatDoesNotFit) {
  const std::pair<const char*, const char*> cases[] = {{R"("|u1")", "256"},
                                                       {R"("|u1")", "-1"},
                                                       {R"("|i1")", "128"},
                                                       {R"("|i1")", "-129"},
                                                       {R"("<i8")", "9223372036854775808"},
                                                       {R"("<i4")", "1.5"},
                                                       {R"("<i4")", R"("NaN")"},
                                                       {R"("<i4")", R"("x")"},
                                                       {R"("|b1")", "2"},
                                                       {R"("<i4")", "[1]"},
                                                       {R"("<f4")", R"("x")"},
                                                       {R"("<f4")", "{}"},
                                                       {R"("<c8")", "[1]"},
                                                       {R"("<c8")", R"([1, "x"])"},
                                                       {R"("|S1")", R"("xy")"},
                                                       {R"("|S2")", "5"},
                                                       {R"("<U1")", R"("ab")"},
                                                       {R"("|V2")", R"("AQIAAA==")"},
                                                       {R"("|V2")", R"("x")"},
                                                       {R"("|O")", "0"},
                                                       {R"("<i4")", "null"},
                                                       {R"("<i8")", "1e19"},
                                                       {R"("<u8")", "1e30"},
                                                       {R"([["a", "<i2"]])", "[1]"}};
  for (const auto& [dtype, fill_value] : cases) {
    const auto result = fill_bytes(type_of(dtype), json(fill_value));
    ASSERT_FALSE(result) << dtype << " " << fill_value;
    EXPECT_EQ(result.error().code, EINVAL);
  }
}

}  // namespace
}  // namespace codecfs
