// Where the chunks of a rectilinear grid are.

#include "backends/zarr/metadata/rectilinear_grid.h"

#include <gtest/gtest.h>

#include "model/json.h"

namespace codecfs::zarr {
namespace {

Result<RectilinearGrid> rectilinear(const char* chunk_shapes, std::vector<uint64_t> shape) {
  return RectilinearGrid::parse(Json::parse(chunk_shapes), shape);
}

std::string text_of(RectilinearGrid::Interval interval) { return fmt::format("{}-{}", interval.begin, interval.end); }

TEST(RectilinearGrid, EachWayToWriteAnAxis) {
  // The example of the specification.
  const auto grid = rectilinear("[4, [1, 2, 3], [[4, 2]], [[1, 3], 3], [4, 4, 4]]", {6, 6, 6, 6, 6});
  ASSERT_TRUE(grid) << grid.error().reason;
  EXPECT_EQ(grid->cells().shape(), (std::vector<uint64_t>{2, 3, 2, 4, 2}));
  EXPECT_EQ(grid->longest(), (std::vector<uint64_t>{4, 3, 4, 3, 4}));
  EXPECT_EQ(text_of(grid->elements(0, 1)), "4-8");
  EXPECT_EQ(text_of(grid->elements(1, 1)), "1-3");
  EXPECT_EQ(text_of(grid->elements(3, 3)), "3-6");
}

TEST(RectilinearGrid, ChunksWithElementsOfAnInterval) {
  const auto grid = rectilinear("[[3, 1, 6], 4]", {10, 10});
  ASSERT_TRUE(grid) << grid.error().reason;
  EXPECT_EQ(text_of(grid->cells_of(0, {0, 1})), "0-1");
  EXPECT_EQ(text_of(grid->cells_of(0, {2, 4})), "0-2");
  EXPECT_EQ(text_of(grid->cells_of(0, {4, 10})), "2-3");
  EXPECT_EQ(text_of(grid->cells_of(0, {0, 10})), "0-3");
  EXPECT_EQ(text_of(grid->cells_of(1, {3, 5})), "0-2");
  EXPECT_EQ(text_of(grid->cells_of(1, {8, 12})), "2-3") << "no chunk begins beyond the array";
}

TEST(RectilinearGrid, EmptyAxesAndScalars) {
  const auto empty = rectilinear("[[], 3]", {0, 0});
  ASSERT_TRUE(empty) << empty.error().reason;
  EXPECT_EQ(empty->cells().count(), 0U);
  EXPECT_EQ(empty->longest(), (std::vector<uint64_t>{1, 3}));
  const auto scalar = rectilinear("[]", {});
  ASSERT_TRUE(scalar);
  EXPECT_EQ(scalar->cells().count(), 1U);
}

TEST(RectilinearGrid, WhatIsRefused) {
  const auto code = [](const char* text, std::vector<uint64_t> shape) {
    const auto grid = rectilinear(text, std::move(shape));
    return grid ? 0 : grid.error().code;
  };
  EXPECT_EQ(code("[[3, 3]]", {7}), EINVAL) << "too short";
  EXPECT_EQ(code("[7, 7]", {7}), EINVAL);
  EXPECT_EQ(code("7", {7}), EINVAL);
  for (const char* bad : {"[0]", "[[0, 7]]", "[-7]", "[7.0]", "[[[7]]]", "[[[7, 0]]]", "[[[1, 2, 3]]]", "[\"7\"]"})
    EXPECT_EQ(code(bad, {7}), EINVAL) << bad;
  EXPECT_EQ(code("[[[1, 1000000000000]]]", {1000000000000}), EOPNOTSUPP);
  EXPECT_EQ(code("[[[1, 100000]], [[1, 100000]]]", {100000, 100000}), EOPNOTSUPP) << "all axes together";
  EXPECT_EQ(code("[[18446744073709551614, 18446744073709551614]]", {18446744073709551615U}), EOVERFLOW);
  // One presented chunk would be put together of 2.5e9 stored ones.
  EXPECT_EQ(code("[[[1, 50000], 50000], [[1, 50000], 50000]]", {100000, 100000}), EOPNOTSUPP);
  EXPECT_EQ(code("[[[5, 1000000000000]]]", {7}), 0) << "what is beyond the array is not counted";
}

}  // namespace
}  // namespace codecfs::zarr
