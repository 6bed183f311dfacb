// The places of chunks are sorted, with a bounded number of them in memory.

#include "commands/stored_places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>

namespace codecfs::commands {
namespace {

TEST(StoredPlaces, AreVisitedInOrder) {
  std::minstd_rand random(1);
  std::vector<StoredPlace> all;
  for (uint64_t number = 0; number < 20'000; ++number)
    all.push_back({.offset = random() % 5'000, .size = random() % 4, .variable = number % 7, .chunk = number});
  const auto every_member = [](const StoredPlace& place) {
    return std::tuple(place.offset, place.size, place.variable, place.chunk);
  };
  for (const size_t in_memory : {100U, 1'000U, 19'999U, 20'000U, 50'000U}) {
    StoredPlaces places(in_memory);
    for (const StoredPlace& place : all) ASSERT_TRUE(places.add(place));
    std::vector<StoredPlace> visited;
    ASSERT_TRUE(places.visit_sorted([&](const StoredPlace& place) { visited.push_back(place); }));
    const auto in_order = [](const StoredPlace& one, const StoredPlace& other) {
      return std::tuple(one.offset, one.size) < std::tuple(other.offset, other.size);
    };
    EXPECT_TRUE(std::ranges::is_sorted(visited, in_order)) << in_memory;
    std::vector<StoredPlace> expected = all;
    std::ranges::sort(expected, {}, every_member);
    std::ranges::sort(visited, {}, every_member);
    EXPECT_TRUE(std::ranges::equal(visited, expected, {}, every_member, every_member)) << in_memory;
  }
}

}  // namespace
}  // namespace codecfs::commands
