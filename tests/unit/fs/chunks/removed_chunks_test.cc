// Removed chunks take memory for the gaps between them only.

#include "fs/chunks/removed_chunks.h"

#include <gtest/gtest.h>

#include <random>

#include "support/failing_memory.h"

namespace codecfs::fs {
namespace {

TEST(NumberRanges, NeighboursAreOneRange) {
  NumberRanges numbers;
  for (const uint64_t number : {5, 1, 3, 4, 3, 2}) numbers.insert(number);
  EXPECT_EQ(numbers.ranges(), (std::map<uint64_t, uint64_t>{{1, 5}}));
  numbers.erase(3, 3);
  EXPECT_EQ(numbers.ranges(), (std::map<uint64_t, uint64_t>{{1, 2}, {4, 5}}));
  numbers.erase(2, 4);
  EXPECT_EQ(numbers.ranges(), (std::map<uint64_t, uint64_t>{{1, 1}, {5, 5}}));
  numbers.erase(0, 10);
  EXPECT_TRUE(numbers.ranges().empty());
}

TEST(NumberRanges, EqualsASet) {
  std::mt19937 random(1);
  NumberRanges numbers;
  std::set<uint64_t> expected;
  for (int step = 0; step < 2000; ++step) {
    const uint64_t number = random() % 50;
    if (random() % 2 == 0) {
      numbers.insert(number);
      expected.insert(number);
    } else {
      const uint64_t last = number + random() % 3;
      numbers.erase(number, last);
      expected.erase(expected.lower_bound(number), expected.upper_bound(last));
    }
    for (uint64_t i = 0; i < 55; ++i) ASSERT_EQ(numbers.contains(i), expected.contains(i)) << step;
  }
}

TEST(RemovedChunks, AnEmptiedVariableTakesOneRange) {
  RemovedChunks removed;
  for (uint64_t number = 0; number < 1000; number += 2) removed.insert(3, 5000 + number, number);
  for (uint64_t number = 1; number < 1000; number += 2) removed.insert(3, 5000 + number, number);
  EXPECT_TRUE(removed.contains(5999));
  EXPECT_FALSE(removed.contains(6000));
  EXPECT_EQ(removed.of(3).size(), 1000);
}

TEST(RemovedChunks, AChunkThatIsWrittenIsNotRemoved) {
  RemovedChunks removed;
  for (uint64_t number = 0; number < 10; ++number) removed.insert(3, 100 + number, number);
  removed.erase(3, 104, 4);
  EXPECT_FALSE(removed.contains(104));
  EXPECT_EQ(removed.of(3), (std::set<uint64_t>{0, 1, 2, 3, 5, 6, 7, 8, 9}));
}

TEST(RemovedChunks, VariablesAreSeparate) {
  RemovedChunks removed;
  removed.insert(3, 100, 0);
  removed.insert(4, 101, 0);
  removed.insert(3, 102, 2);
  removed.erase(3);
  EXPECT_FALSE(removed.contains(100));
  EXPECT_TRUE(removed.contains(101));
  EXPECT_FALSE(removed.contains(102));
  EXPECT_TRUE(removed.of(3).empty());
  EXPECT_EQ(removed.of(4), (std::set<uint64_t>{0}));
}

TEST(RemovedChunks, OneVariableMayHaveSeveralKeys) {
  RemovedChunks removed;
  removed.insert(3, 100, 0);
  removed.insert(3, 500, 0);
  removed.erase(3, 500, 0);
  EXPECT_FALSE(removed.contains(100)) << "it is the same chunk";
  EXPECT_TRUE(removed.of(3).empty());
}

TEST(RemovedChunks, AreAsBeforeWhenMemoryRunsOut) {
  std::mt19937 random(1);
  RemovedChunks removed;
  std::set<uint64_t> expected;
  for (int step = 0; step < 3000; ++step) {
    const uint64_t number = random() % 50;
    const bool inserts = random() % 2 == 0;
    const Result<> done = [&] {
      const FailingMemory failing(static_cast<int>(random() % 3));
      return without_memory_errors([&]() -> Result<> {
        if (inserts)
          removed.insert(3, 1000 + number, number);
        else
          removed.erase(3, 1000 + number, number);
        return {};
      });
    }();
    if (done && inserts) expected.insert(number);
    if (done && !inserts) expected.erase(number);
    ASSERT_EQ(removed.of(3), expected) << step;
    for (uint64_t i = 0; i < 50; ++i) ASSERT_EQ(removed.contains(1000 + i), expected.contains(i)) << step;
  }
  {
    const FailingMemory failing(0);
    removed.erase(3);
  }
  for (uint64_t i = 0; i < 50; ++i) EXPECT_FALSE(removed.contains(1000 + i));
}

}  // namespace
}  // namespace codecfs::fs
