// Chunk numbers, coordinates and names, and the limits of a grid.

#include "model/chunk_grid.h"

#include <gtest/gtest.h>

namespace codecfs {
namespace {

ChunkGrid make(std::vector<uint64_t> shape, std::vector<uint64_t> chunks) {
  auto grid = ChunkGrid::make(std::move(shape), std::move(chunks));
  EXPECT_TRUE(grid);
  return grid ? *grid : ChunkGrid();
}

TEST(ChunkGrid, CountsEdgeChunks) {
  const ChunkGrid grid = make({10, 7, 3}, {4, 7, 2});
  EXPECT_EQ(grid.cells(), (std::vector<uint64_t>{3, 1, 2}));
  EXPECT_EQ(grid.count(), 6U);
  EXPECT_EQ(grid.elements_per_chunk(), 56U);
}

TEST(ChunkGrid, NumbersNamesAndCoordinatesAgree) {
  const ChunkGrid grid = make({10, 7, 30}, {4, 3, 2});
  for (const char separator : {'.', '/'}) {
    for (uint64_t number = 0; number < grid.count(); ++number) {
      std::vector<uint64_t> coordinates(3);
      grid.coordinates_of(number, coordinates);
      EXPECT_EQ(grid.number_of(coordinates), number);
      const std::string name = grid.name_of(number, separator);
      EXPECT_EQ(name, fmt::format("{1}{0}{2}{0}{3}", separator, coordinates[0], coordinates[1], coordinates[2]));
      EXPECT_EQ(grid.number_of(name, separator), number);
    }
  }
  EXPECT_EQ(grid.name_of(15), "0.1.0");  // C order: the last coordinate runs fastest
}

TEST(ChunkGrid, OnlyCanonicalNamesInTheGridAreChunks) {
  const ChunkGrid grid = make({100, 100}, {10, 10});
  EXPECT_TRUE(grid.number_of("9.9"));
  for (const char* bad : {"",
                          "0",
                          "0.",
                          ".0",
                          "0.0.0",
                          "00.0",
                          "0.01",
                          "+1.0",
                          "-1.0",
                          " 1.0",
                          "1.0 ",
                          "10.0",
                          "0.10",
                          "0/0",
                          "a.b",
                          "0..0",
                          "18446744073709551616.0",
                          "0.0.tmp",
                          ".zarray",
                          "0x1.0"})
    EXPECT_FALSE(grid.number_of(bad)) << bad;
  EXPECT_FALSE(grid.number_of(std::string_view("0.0\0", 4)));
}

TEST(ChunkGrid, AScalarHasOneChunk) {
  const ChunkGrid grid = make({}, {});
  EXPECT_EQ(grid.count(), 1U);
  EXPECT_EQ(grid.elements_per_chunk(), 1U);
  EXPECT_EQ(grid.name_of(0), "0");
  EXPECT_EQ(grid.number_of("0"), 0U);
  EXPECT_FALSE(grid.number_of("1"));
  EXPECT_FALSE(grid.number_of(""));
}

TEST(ChunkGrid, ADimensionOfZeroHasNoChunks) {
  const ChunkGrid grid = make({0, UINT64_MAX, UINT64_MAX}, {5, 1, 1});
  EXPECT_EQ(grid.count(), 0U);
  EXPECT_FALSE(grid.number_of("0.0.0"));
}

TEST(ChunkGrid, RefusesWhatCannotBeCounted) {
  EXPECT_EQ(ChunkGrid::make({1, 2}, {1}).error().code, EINVAL);
  EXPECT_EQ(ChunkGrid::make({1}, {0}).error().code, EINVAL);
  EXPECT_EQ(ChunkGrid::make(std::vector<uint64_t>(65, 1), std::vector<uint64_t>(65, 1)).error().code, EINVAL);
  EXPECT_EQ(ChunkGrid::make({uint64_t{1} << 61}, {1}).error().code, EOVERFLOW);
  EXPECT_EQ(ChunkGrid::make({UINT64_MAX, UINT64_MAX}, {1, 1}).error().code, EOVERFLOW);
  EXPECT_EQ(ChunkGrid::make({1, 1, 1}, {uint64_t{1} << 30, uint64_t{1} << 30, 2}).error().code, EOVERFLOW);
  EXPECT_TRUE(ChunkGrid::make({uint64_t{1} << 60}, {1}));
  EXPECT_TRUE(ChunkGrid::make({UINT64_MAX}, {uint64_t{1} << 60}));
}

}  // namespace
}  // namespace codecfs
