// The numbers of the directories of chunks: distinct, reversible, in the order of a walk, and the same after growth.

#include "model/chunk_directories.h"

#include <gtest/gtest.h>

#include <string>

namespace codecfs {
namespace {

using Coordinates = std::vector<uint64_t>;

ChunkGrid grid(Coordinates cells) {
  Coordinates ones(cells.size(), 1);
  return *ChunkGrid::make(std::move(cells), std::move(ones));
}

/// Each directory once, by a walk that does not know their numbers.
void walk(const ChunkGrid& cells, const Coordinates& prefix, std::vector<Coordinates>& found) {
  found.push_back(prefix);
  if (prefix.size() + 1 == cells.rank()) return;
  for (uint64_t i = 0; i < cells.cells()[prefix.size()]; ++i) {
    Coordinates below = prefix;
    below.push_back(i);
    walk(cells, below, found);
  }
}

TEST(ChunkDirectories, AreNumberedInTheOrderOfAWalk) {
  for (const Coordinates& cells : {Coordinates{3}, {3, 2}, {2, 3, 4}, {1, 1, 1, 1}, {4, 1, 2, 3}}) {
    const ChunkGrid all = grid(cells);
    const ChunkDirectories directories(all);
    std::vector<Coordinates> expected;
    walk(all, {}, expected);
    ASSERT_EQ(directories.count(), expected.size());
    for (uint64_t number = 0; number < expected.size(); ++number) {
      EXPECT_EQ(directories.prefix_of(number), expected[number]);
      EXPECT_EQ(directories.number_of(expected[number]), number);
    }
  }
}

TEST(ChunkDirectories, TheirChunksHaveConsecutiveNumbers) {
  const ChunkGrid all = grid({2, 3, 4});
  const ChunkDirectories directories(all);
  for (uint64_t number = 0; number < directories.count(); ++number) {
    const Coordinates prefix = directories.prefix_of(number);
    const auto [first, end] = directories.chunks_below(prefix);
    uint64_t inside = 0;
    for (uint64_t chunk = 0; chunk < all.count(); ++chunk) {
      Coordinates at(3);
      all.coordinates_of(chunk, at);
      const bool is_below = std::equal(prefix.begin(), prefix.end(), at.begin());
      EXPECT_EQ(is_below, chunk >= first && chunk < end);
      inside += is_below ? 1 : 0;
    }
    EXPECT_EQ(end - first, inside);
    EXPECT_EQ(directories.holds_chunks(prefix.size()), prefix.size() == 2);
  }
}

TEST(ChunkDirectories, KeepTheirNumbersWhenTheFirstDimensionGrows) {
  const ChunkDirectories before(grid({2, 3, 4}));
  const ChunkDirectories after(grid({9, 3, 4}));
  for (uint64_t number = 0; number < before.count(); ++number)
    EXPECT_EQ(after.prefix_of(number), before.prefix_of(number));
}

TEST(ChunkDirectories, ScalarsHaveNoneAndEmptyArraysOne) {
  EXPECT_EQ(ChunkDirectories(grid({})).count(), 0);
  for (const Coordinates& cells : {Coordinates{0}, {0, 5}, {uint64_t{1} << 62, 0}, {1, uint64_t{1} << 62, 0}}) {
    const ChunkDirectories directories(grid(cells));
    EXPECT_EQ(directories.count(), 1);
    EXPECT_EQ(directories.entries(0), 0);
    EXPECT_EQ(directories.chunks_below({}).end, 0);
  }
}

TEST(ChunkDirectories, TooManyAreSaidToBe) {
  Coordinates cells(64, 1);
  cells[0] = uint64_t{1} << 60;
  EXPECT_EQ(ChunkDirectories(grid(cells)).count(), UINT64_MAX);
  cells[0] = uint64_t{1} << 50;
  EXPECT_EQ(ChunkDirectories(grid(cells)).count(), 1 + 63 * cells[0]);
}

TEST(ChunkDirectories, CoordinatesAreCanonical) {
  EXPECT_EQ(parse_coordinate("0"), 0);
  EXPECT_EQ(parse_coordinate("120"), 120);
  EXPECT_EQ(parse_coordinate("18446744073709551615"), UINT64_MAX);
  for (const char* const name : {"", "00", "01", "-1", "+1", " 1", "1 ", "1.0", "a", "18446744073709551616"})
    EXPECT_EQ(parse_coordinate(name), std::nullopt) << name;
}

}  // namespace
}  // namespace codecfs
