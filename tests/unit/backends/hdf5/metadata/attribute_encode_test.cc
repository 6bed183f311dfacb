#include "backends/hdf5/metadata/attribute_encode.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backends/hdf5/library/library_lock.h"

namespace codecfs::hdf5 {
namespace {

TEST(AttributeEncode, NumbersAreComparedExactly) {
  EXPECT_TRUE(same_value(Json(1), Json(1.0)));
  EXPECT_TRUE(same_value(Json(-3), Json(-3.0)));
  EXPECT_FALSE(same_value(Json(1), Json(1.5)));
  EXPECT_FALSE(same_value(Json(uint64_t{9007199254740993}), Json(9007199254740992.0)));
  EXPECT_FALSE(same_value(Json(int64_t{-1}), Json(UINT64_MAX)));
  EXPECT_FALSE(same_value(Json("1"), Json(1)));
  EXPECT_TRUE(same_value(Json({{"a", 1}, {"b", {1, 2}}}), Json({{"b", {1.0, 2}}, {"a", 1}})));
}

TEST(AttributeEncode, NestedListsHaveOneShape) {
  const Json json = Json::parse("[[1, 2, 3], [4, 5, 6]]");
  const Dims dims = depth_of(json);
  EXPECT_EQ(dims, (Dims{2, 3}));
  std::vector<const Json*> items;
  ASSERT_TRUE(flatten(json, dims, items));
  ASSERT_EQ(items.size(), 6U);
  EXPECT_EQ(*items[4], 5);
  items.clear();
  EXPECT_FALSE(flatten(Json::parse("[[1, 2], [3]]"), Dims{2, 2}, items));
}

TEST(AttributeEncode, WhatDoesNotFitIsRefused) {
  const LibraryLock lock;
  std::vector<std::byte> bytes;
  std::deque<std::string> texts;
  const auto encode = [&](hid_t memory, hid_t stored, const Json& value) {
    const Json* const item = &value;
    return encode_items(memory, stored, {&item, 1}, bytes, texts);
  };
  EXPECT_TRUE(encode(H5T_NATIVE_INT, H5T_STD_I16LE, 1000));
  int value = 0;
  ASSERT_EQ(bytes.size(), sizeof value);
  std::memcpy(&value, bytes.data(), sizeof value);
  EXPECT_EQ(value, 1000);
  EXPECT_FALSE(encode(H5T_NATIVE_INT, H5T_STD_I16LE, 100'000));
  EXPECT_FALSE(encode(H5T_NATIVE_INT, H5T_STD_I32LE, 1.5));
  EXPECT_FALSE(encode(H5T_NATIVE_DOUBLE, H5T_IEEE_F64LE, uint64_t{9007199254740993}));
}

}  // namespace
}  // namespace codecfs::hdf5
