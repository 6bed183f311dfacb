// The keys of all chunks, divided among lists.

#include "backends/zarr/store/listing_prefixes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace codecfs::zarr {
namespace {

ChunkGrid grid_with(std::vector<uint64_t> cells) {
  std::vector<uint64_t> chunks(cells.size(), 1);
  return ChunkGrid::make(std::move(cells), std::move(chunks)).value();
}

/// How many keys begin with each prefix. Fails if a key begins with none or several.
std::map<std::string, uint64_t> count_by_prefix(const ChunkGrid& grid, const ChunkKeys& keys,
                                                const std::vector<std::string>& prefixes) {
  std::map<std::string, uint64_t> counts;
  for (uint64_t number = 0; number < grid.count(); ++number) {
    const std::string key = keys.name_of(grid, number);
    const auto begins = [&](const std::string& prefix) { return key.starts_with(prefix); };
    EXPECT_EQ(std::ranges::count_if(prefixes, begins), 1) << key;
    if (const auto found = std::ranges::find_if(prefixes, begins); found != prefixes.end()) ++counts[*found];
  }
  return counts;
}

const std::vector<ChunkKeys> kEncodings = {{.has_prefix = true, .separator = '/'},
                                           {.has_prefix = true, .separator = '.'},
                                           {.has_prefix = false, .separator = '.'},
                                           {.has_prefix = false, .separator = '/'}};

TEST(ListingPrefixes, EachKeyHasOne) {
  for (const ChunkKeys& keys : kEncodings)
    for (const std::vector<uint64_t>& cells : std::vector<std::vector<uint64_t>>{{1000},
                                                                                 {20'000},
                                                                                 {1, 1, 3000},
                                                                                 {3, 50, 40},
                                                                                 {1234, 3},
                                                                                 {7, 1, 999},
                                                                                 {10, 10, 10, 10},
                                                                                 {100, 2},
                                                                                 {11, 11, 11}}) {
      const ChunkGrid grid = grid_with(cells);
      const auto prefixes = listing_prefixes(grid, keys, 100, 64);
      ASSERT_GE(prefixes.size(), 2U);
      EXPECT_LE(prefixes.size(), 64U);
      EXPECT_TRUE(std::ranges::is_sorted(prefixes));
      count_by_prefix(grid, keys, prefixes);
    }
}

TEST(ListingPrefixes, AreEvenWhereDigitsDivide) {
  const ChunkGrid grid = grid_with({100'000, 1});
  const auto prefixes = listing_prefixes(grid, kEncodings[2], 2000, 200);
  for (const auto& [prefix, count] : count_by_prefix(grid, kEncodings[2], prefixes)) EXPECT_LE(count, 2000U) << prefix;
  EXPECT_GE(prefixes.size(), 50U);
}

TEST(ListingPrefixes, AreFewForFewKeys) {
  EXPECT_TRUE(listing_prefixes(grid_with({100, 10}), kEncodings[0], 4000, 64).empty());
  EXPECT_TRUE(listing_prefixes(grid_with({}), kEncodings[0], 10, 64).empty());
  EXPECT_TRUE(listing_prefixes(ChunkGrid::make({0, 5}, {1, 1}).value(), kEncodings[0], 10, 64).empty());
  EXPECT_LE(listing_prefixes(grid_with({10'000}), kEncodings[0], 4000, 64).size(), 10U);
}

TEST(ListingPrefixes, HugeGridsAreDividedQuickly) {
  const ChunkGrid grid = ChunkGrid::make({uint64_t{1} << 40, 1 << 19}, {1, 1}).value();
  const auto prefixes = listing_prefixes(grid, kEncodings[0], 4000, 64);
  EXPECT_LE(prefixes.size(), 64U);
  EXPECT_GT(prefixes.size(), 30U);
}

}  // namespace
}  // namespace codecfs::zarr
