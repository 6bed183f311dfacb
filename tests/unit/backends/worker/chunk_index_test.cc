// Which places the daemon looks up, and when it looks them up again.

#include "backends/worker/chunk_index.h"

#include <gtest/gtest.h>

#include <vector>

namespace codecfs::worker {
namespace {

class ChunkIndexTest : public testing::Test {
 protected:
  Result<hdf5::StoredPlaces> fetch(ObjectId variable, uint64_t first, uint64_t count) {
    calls_.push_back({first, count});
    hdf5::StoredPlaces found{.layout = variable, .slot = 3, .generation = shared_.generations[3], .places = {}};
    for (uint64_t number = first; number < std::min(first + count, kChunks); ++number) {
      if (number == broken_) {
        if (number == first) return fail(EIO, "this place cannot be read");
        break;
      }
      found.places.push_back({.offset = 1000 * number, .size = number, .kind = hdf5::StoredPlace::Kind::encoded});
    }
    return found;
  }
  uint64_t offset_of(uint64_t number) {
    const auto found = index_.find(1, number);
    return found ? found->place.offset : UINT64_MAX;
  }

  using Calls = std::vector<std::pair<uint64_t, uint64_t>>;
  static constexpr uint64_t kChunks = 1000;
  hdf5::SharedState shared_;
  Calls calls_;
  uint64_t broken_ = UINT64_MAX;
  ChunkIndex index_{shared_, [this](ObjectId id, uint64_t first, uint64_t count) { return fetch(id, first, count); },
                    std::make_shared<ChunkRanges>(uint64_t{1} << 20)};
};

TEST_F(ChunkIndexTest, OneThenAFewThenTheRange) {
  for (uint64_t number = 256; number < 512; ++number) EXPECT_EQ(offset_of(number), 1000 * number);
  EXPECT_EQ(calls_, (Calls{{256, 1}, {257, 16}, {256, 256}}));
}

TEST_F(ChunkIndexTest, ARangeAfterAFetchedOneIsFetchedAtOnce) {
  for (uint64_t number = 0; number < 768; ++number) EXPECT_EQ(offset_of(number), 1000 * number);
  EXPECT_EQ(calls_, (Calls{{0, 1}, {1, 16}, {0, 256}, {256, 256}, {512, 256}}));
}

TEST_F(ChunkIndexTest, ASparseListOfChunksToo) {
  for (uint64_t number = 0; number < 768; number += 10) EXPECT_EQ(offset_of(number), 1000 * number);
  EXPECT_EQ(calls_, (Calls{{0, 1}, {10, 16}, {0, 256}, {256, 256}, {512, 256}}));
}

TEST_F(ChunkIndexTest, RandomReadsAskForOneChunkEach) {
  for (const uint64_t number : {900U, 5U, 600U}) EXPECT_EQ(offset_of(number), 1000 * number);
  EXPECT_EQ(calls_, (Calls{{900, 1}, {5, 1}, {600, 1}}));
}

TEST_F(ChunkIndexTest, MemoryIsBoundedForAllIndexesTogether) {
  const auto ranges = std::make_shared<ChunkRanges>(uint64_t{1});  // only the latest range stays
  const auto get = [this](ObjectId id, uint64_t first, uint64_t count) { return fetch(id, first, count); };
  ChunkIndex one(shared_, get, ranges);
  ChunkIndex other(shared_, get, ranges);
  EXPECT_TRUE(one.find(1, 7) && one.find(1, 7));
  EXPECT_EQ(calls_.size(), 1U);
  EXPECT_TRUE(other.find(1, 7) && one.find(1, 7));  // they do not share what they know, only the room for it
  EXPECT_EQ(calls_.size(), 3U);
}

TEST_F(ChunkIndexTest, AChangeOfTheVariableOrOfTheTreeLooksUpAgain) {
  (void)offset_of(7);
  (void)offset_of(7);
  EXPECT_EQ(calls_.size(), 1U);
  ++shared_.generations[3];
  (void)offset_of(7);
  EXPECT_EQ(calls_.size(), 2U);
  index_.invalidate();
  (void)offset_of(7);
  EXPECT_EQ(calls_.size(), 3U);
  const auto found = index_.find(1, 7);
  EXPECT_TRUE(index_.is_current(*found));
  ++shared_.generations[3];
  EXPECT_FALSE(index_.is_current(*found));
}

TEST_F(ChunkIndexTest, BetweenChangesOneChunkIsAskedFor) {
  for (uint64_t number = 0; number < 600; ++number) {
    EXPECT_EQ(offset_of(number), 1000 * number);
    ++shared_.generations[3];  // this chunk is stored
  }
  uint64_t places = 0;
  for (const auto& [first, count] : calls_) places += count;
  EXPECT_EQ(places, 600U);
  calls_.clear();
  for (uint64_t number = 300; number < 512; ++number) EXPECT_EQ(offset_of(number), 1000 * number);
  EXPECT_EQ(calls_, (Calls{{300, 1}, {301, 16}, {256, 256}}));
}

TEST_F(ChunkIndexTest, AnUnreadablePlaceIsAnErrorOfItsChunkAlone) {
  broken_ = 10;
  for (uint64_t number = 0; number < 30; ++number)
    EXPECT_EQ(offset_of(number), number == 10 ? UINT64_MAX : 1000 * number);
}

}  // namespace
}  // namespace codecfs::worker
