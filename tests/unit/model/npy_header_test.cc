// Headers compared byte for byte with those of numpy 1.24 (numpy.lib.format._write_array_header()).

#include "model/npy_header.h"
#include "model/json.h"

#include <gtest/gtest.h>

namespace codecfs {
namespace {

using std::string_view_literals::operator""sv;

struct Case {
  const char* dtype;  // as in .zarray
  std::vector<uint64_t> shape;
  std::string_view header;  // without the padding at its end
  size_t size;              // including it
};

const Case kCases[] = {
    {R"json("<f8")json",
     {3, 4},
     "\223NUMPY\001\000v\000{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }"sv,
     128},
    {R"json(">i2")json", {5}, "\223NUMPY\001\000v\000{'descr': '>i2', 'fortran_order': False, 'shape': (5,), }"sv, 128},
    {R"json("|b1")json", {}, "\223NUMPY\001\000v\000{'descr': '|b1', 'fortran_order': False, 'shape': (), }"sv, 128},
    {R"json("<c16")json",
     {0, 3},
     "\223NUMPY\001\000v\000{'descr': '<c16', 'fortran_order': False, 'shape': (0, 3), }"sv,
     128},
    {R"json("|S7")json", {2}, "\223NUMPY\001\000v\000{'descr': '|S7', 'fortran_order': False, 'shape': (2,), }"sv, 128},
    {R"json("<U3")json", {2}, "\223NUMPY\001\000v\000{'descr': '<U3', 'fortran_order': False, 'shape': (2,), }"sv, 128},
    {R"json("|V5")json", {1}, "\223NUMPY\001\000v\000{'descr': '|V5', 'fortran_order': False, 'shape': (1,), }"sv, 128},
    {R"json("<M8[25s]")json",
     {2},
     "\223NUMPY\001\000v\000{'descr': '<M8[25s]', 'fortran_order': False, 'shape': (2,), }"sv,
     128},
    {R"json([["a", "<i4"], ["it's", "<f8"]])json",
     {2},
     "\223NUMPY\001\000v\000{'descr': [('a', '<i4'), (\"it's\", '<f8')], 'fortran_order': False, 'shape': (2,), }"sv,
     128},
    {R"json([["q\"'\\", "<i4"], ["t\t\n\u0001", "|u1"]])json",
     {2},
     "\223NUMPY\001\000v\000{'descr': [('q\"\\'\\\\', '<i4'), ('t\\t\\n\\x01', '|u1')], 'fortran_order': False, 'shape': (2,), }"sv,
     128},
    {R"json([["\u00e9", "<i4"], ["x\u00ad\u00a0y", "<i4"]])json",
     {2},
     "\223NUMPY\001\000v\000{'descr': [('\351', '<i4'), ('x\\xad\\xa0y', '<i4')], 'fortran_order': False, 'shape': (2,), }"sv,
     128},
    {R"json([["\u6e29\u5ea6", "<f4"]])json",
     {10, 20},
     "\223NUMPY\003\000t\000\000\000{'descr': [('\346\270\251\345\272\246', '<f4')], 'fortran_order': False, 'shape': (10, 20), }"sv,
     128},
    {R"json([["v", "<f4", [2, 3]], ["n", [["x", "|i1"], ["y", ">f8", [4]]], [2]]])json",
     {7},
     "\223NUMPY\001\000\266\000{'descr': [('v', '<f4', (2, 3)), ('n', [('x', '|i1'), ('y', '>f8', (4,))], (2,))], 'fortran_order': False, 'shape': (7,), }"sv,
     192},
    {R"json([["a", "|i1"], ["__pad0", "|V7"], ["b", "<f8"], ["__pad1", "|V8"]])json",
     {2},
     "\223NUMPY\001\000\266\000{'descr': [('a', '|i1'), ('', '|V7'), ('b', '<f8'), ('', '|V8')], 'fortran_order': False, 'shape': (2,), }"sv,
     192},
    {R"json([["o", [["a", "|i1"], ["__pad0", "|V3"], ["b", "<i4"]]], ["p", "|V3"]])json",
     {2},
     "\223NUMPY\001\000\266\000{'descr': [('o', [('a', '|i1'), ('', '|V3'), ('b', '<i4')]), ('p', '|V3')], 'fortran_order': False, 'shape': (2,), }"sv,
     192},
    {R"json("<f4")json",
     {12345678901234567},
     "\223NUMPY\001\000v\000{'descr': '<f4', 'fortran_order': False, 'shape': (12345678901234567,), }"sv,
     128},
    {R"json([["m000", "<f4"], ["m001", "<f4"], ["m002", "<f4"], ["m003", "<f4"], ["m004", "<f4"], ["m005", "<f4"]])json",
     {3},
     "\223NUMPY\001\000\266\000{'descr': [('m000', '<f4'), ('m001', '<f4'), ('m002', '<f4'), ('m003', '<f4'), ('m004', '<f4'), ('m005', '<f4')], 'fortran_order': False, 'shape': (3,), }"sv,
     192},
};

DataType type_of(const char* dtype) {
  const auto json = parse_json(dtype);
  EXPECT_TRUE(json) << dtype;
  auto type = parse_dtype(*json);
  EXPECT_TRUE(type) << dtype;
  return *type;
}

TEST(NpyHeader, IsNumpysOwn) {
  for (const Case& expected : kCases) {
    const auto header = npy_header(type_of(expected.dtype), expected.shape);
    ASSERT_TRUE(header) << expected.dtype;
    EXPECT_EQ(header->size(), expected.size) << expected.dtype;
    EXPECT_EQ(std::string_view(*header).substr(0, expected.header.size()), expected.header) << expected.dtype;
    const std::string rest = header->substr(std::min(expected.header.size(), header->size()));
    EXPECT_EQ(rest, std::string(expected.size - expected.header.size() - 1, ' ') + "\n") << expected.dtype;
  }
}

TEST(NpyHeader, IsVersion2WhereTheTextIsLong) {
  // numpy: 1.0 up to 2727 members of this kind, then 2.0.
  const auto header_of = [](size_t members) {
    DataType type{TypeKind::structured, ByteOrder::none, 4 * members, {}, {}};
    for (size_t i = 0; i < members; ++i)
      type.members.push_back({fmt::format("member{:05}", i), {TypeKind::floating, ByteOrder::little, 4, {}, {}}, {}});
    const uint64_t shape[] = {3};
    return *npy_header(type, shape);
  };
  const std::string short_one = header_of(2727);
  EXPECT_EQ(short_one.substr(6, 2), "\x01\x00"sv);
  EXPECT_EQ(short_one.size(), 65536);
  const std::string long_one = header_of(2728);
  EXPECT_EQ(long_one.substr(6, 2), "\x02\x00"sv);
  EXPECT_EQ(long_one.size(), 65600);
  uint32_t length = 0;
  for (int i = 0; i < 4; ++i) length |= static_cast<uint32_t>(static_cast<unsigned char>(long_one[8 + i])) << 8 * i;
  EXPECT_EQ(length + 12, long_one.size());
  EXPECT_EQ(long_one.substr(12, 11), "{'descr': [");
  EXPECT_EQ(long_one.back(), '\n');
}

TEST(NpyHeader, NamesThatAreNoText) {
  DataType type{TypeKind::structured, ByteOrder::none, 4, {}, {}};
  type.members.push_back({"a\xff", {TypeKind::signed_int, ByteOrder::little, 4, {}, {}}, {}});
  const auto header = npy_header(type, {});
  ASSERT_TRUE(header);
  EXPECT_EQ(header->substr(6, 2), "\x03\x00"sv);
  EXPECT_NE(header->find("('a\xef\xbf\xbd', '<i4')"), header->npos);
}

TEST(NpyHeader, WhatNumpyCannotMapHasNone) {
  EXPECT_EQ(npy_header(type_of("\"|O\""), {}).error().code, EOPNOTSUPP);
  EXPECT_EQ(npy_header(type_of("\"|S0\""), {}).error().code, EOPNOTSUPP);
}

}  // namespace
}  // namespace codecfs
