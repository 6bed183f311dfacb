// Regions of arrays, against a count of every element.

#include "commands/grid_regions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace codecfs::commands {
namespace {

ChunkGrid grid(std::vector<uint64_t> shape, std::vector<uint64_t> chunks) {
  return *ChunkGrid::make(std::move(shape), std::move(chunks));
}

std::vector<uint64_t> chunks_in(const ChunkGrid& grid, const Region& region) {
  std::vector<uint64_t> numbers;
  EXPECT_TRUE(for_each_chunk_in(grid, region, [&](uint64_t number) {
    numbers.push_back(number);
    return Result<>();
  }));
  return numbers;
}

TEST(GridRegions, AreNamedAsNumpySelectsThem) {
  EXPECT_EQ((Region{{6, 0}, {2, 100}}.text()), "[6:8, 0:100]");
  EXPECT_EQ((Region{{}, {}}.text()), "[...]");
  EXPECT_EQ((Region{{6, 0}, {2, 100}}.elements()), 200U);
  EXPECT_EQ((Region{{}, {}}.elements()), 1U);
}

TEST(GridRegions, ChunksAtTheEdgeEndWithTheArray) {
  const ChunkGrid ragged = grid({5, 7}, {2, 3});
  EXPECT_EQ(region_of_chunk(ragged, 0).text(), "[0:2, 0:3]");
  EXPECT_EQ(region_of_chunk(ragged, 2).text(), "[0:2, 6:7]");
  EXPECT_EQ(region_of_chunk(ragged, 8).text(), "[4:5, 6:7]");
  EXPECT_EQ(region_of_chunk(grid({}, {}), 0).text(), "[...]");
}

TEST(GridRegions, ChunksThatOverlapARegion) {
  const ChunkGrid ragged = grid({5, 7}, {2, 3});
  EXPECT_EQ(chunks_in(ragged, {{1, 2}, {2, 2}}), (std::vector<uint64_t>{0, 1, 3, 4}));
  EXPECT_EQ(chunks_in(ragged, {{4, 6}, {1, 1}}), (std::vector<uint64_t>{8}));
  EXPECT_TRUE(chunks_in(ragged, {{1, 2}, {0, 2}}).empty());
  EXPECT_EQ(chunks_in(grid({}, {}), {{}, {}}), (std::vector<uint64_t>{0}));
}

TEST(GridRegions, AnErrorEndsTheVisit) {
  int visits = 0;
  const Result<> done = for_each_chunk_in(grid({9}, {1}), {{0}, {9}}, [&](uint64_t number) -> Result<> {
    ++visits;
    return number == 3 ? Result<>(fail(ECANCELED, "enough")) : Result<>();
  });
  EXPECT_FALSE(done);
  EXPECT_EQ(visits, 4);
}

TEST(GridRegions, Intersections) {
  EXPECT_EQ(intersection({{0, 0}, {4, 4}}, {{2, 3}, {4, 4}}).text(), "[2:4, 3:4]");
  EXPECT_EQ(intersection({{0, 0}, {2, 2}}, {{2, 0}, {2, 2}}).elements(), 0U);
  EXPECT_EQ(intersection({{}, {}}, {{}, {}}).elements(), 1U);
}

/// Each element of an array belongs to one chunk of either grid; the runs of all overlaps are all elements, once.
TEST(GridRegions, RunsCoverEachElementOnceAtItsIndices) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const size_t rank = random() % 4;
    std::vector<uint64_t> shape;
    std::vector<uint64_t> chunks;
    std::vector<uint64_t> other_chunks;
    for (size_t d = 0; d < rank; ++d) {
      shape.push_back(1 + random() % 6);
      chunks.push_back(1 + random() % 7);
      other_chunks.push_back(1 + random() % 7);
    }
    const ChunkGrid one = grid(shape, chunks);
    const ChunkGrid other = grid(shape, other_chunks);
    std::set<std::vector<uint64_t>> seen;
    const auto place_of = [&](const Block& block, uint64_t index) {
      std::vector<uint64_t> at(rank);
      for (size_t d = rank; d-- > 0; index /= block.extent[d]) at[d] = block.origin[d] + index % block.extent[d];
      return at;
    };
    for (uint64_t number = 0; number < one.count(); ++number) {
      const Region region = region_of_chunk(one, number);
      const Block block{region.origin, one.chunks()};
      const std::vector<uint64_t> overlapping = chunks_in(other, region);
      EXPECT_TRUE(std::ranges::is_sorted(overlapping));
      for (const uint64_t second : overlapping) {
        const Region theirs = region_of_chunk(other, second);
        const Region part = intersection(region, theirs);
        EXPECT_GT(part.elements(), 0U);
        const Block other_block{theirs.origin, other.chunks()};
        for_each_run(part, block, other_block, [&](uint64_t in_one, uint64_t in_other, uint64_t count) {
          for (uint64_t i = 0; i < count; ++i) {
            const std::vector<uint64_t> at = place_of(block, in_one + i);
            ASSERT_EQ(at, place_of(other_block, in_other + i));
            ASSERT_TRUE(seen.insert(at).second);
          }
        });
      }
    }
    uint64_t elements = 1;
    for (const uint64_t extent : shape) elements *= extent;
    ASSERT_EQ(seen.size(), elements);
  }
}

}  // namespace
}  // namespace codecfs::commands
