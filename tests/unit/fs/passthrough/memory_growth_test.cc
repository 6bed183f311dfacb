#include "fs/passthrough/memory_growth.h"

#include <gtest/gtest.h>

namespace codecfs::fs {
namespace {

using std::chrono::microseconds;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr microseconds kCopy{50};    // of a MiB
constexpr microseconds kDear{2300};  // of a MiB to memory that the host has to find

struct MemoryGrowthTest : testing::Test {
  /// Writes files of 1 MiB in new memory as long as that is permitted, at most `most`. Returns how many.
  uint64_t grow(microseconds cost, uint64_t most) {
    uint64_t count = 0;
    for (; count < most && growth.permits(growth.had() + kMiB); ++count)
      growth.written(growth.had() + kMiB, kMiB, cost);
    return count;
  }
  /// The MiB that must be read until the next trial.
  uint64_t pause() {
    uint64_t count = 0;
    for (; !growth.permits(growth.had() + kMiB); ++count) growth.seen(kMiB);
    return count;
  }

  MemoryGrowth growth;
};

TEST_F(MemoryGrowthTest, CheapMemoryHasNoEnd) { EXPECT_EQ(grow(kCopy, 100'000), 100'000U); }

TEST_F(MemoryGrowthTest, DearMemoryIsTakenForSomeMillisecondsOnly) {
  EXPECT_LE(grow(kDear, 1000), 15U);
  const uint64_t had = growth.had();
  EXPECT_TRUE(growth.permits(had)) << "what was had can be used again";
  growth.written(had, kMiB, kCopy);
  EXPECT_FALSE(growth.permits(had + kMiB));
}

TEST_F(MemoryGrowthTest, TheEndComesSoonWhenMemoryBecomesDear) {
  EXPECT_EQ(grow(kCopy, 1000), 1000U);
  EXPECT_LE(grow(kDear, 1000), 6U) << "whatever was gained before";
}

TEST_F(MemoryGrowthTest, TrialsBecomeRare) {
  grow(kCopy, 10);
  grow(kDear, 1000);
  EXPECT_EQ(pause(), 256U);
  uint64_t dear = 0;
  uint64_t waited = 0;
  for (int i = 0; i < 10; ++i) {
    dear += grow(kDear, 1000);
    waited += pause();
  }
  EXPECT_EQ(dear, 10U) << "one file each";
  EXPECT_GE(waited, uint64_t{10} * 1024);
  EXPECT_EQ(pause(), 0U);
}

TEST_F(MemoryGrowthTest, AGoodTrialGoesOn) {
  grow(kCopy, 10);
  grow(kDear, 1000);
  pause();
  grow(kDear, 1);
  EXPECT_EQ(pause(), 512U);
  EXPECT_EQ(grow(kCopy, 1000), 1000U);
  EXPECT_LE(grow(kDear, 1000), 6U);
  EXPECT_EQ(pause(), 256U) << "as if it had never been dear";
}

TEST_F(MemoryGrowthTest, SomeDearWritesAmongCheapOnesAreAGain) {
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(grow(kDear, 1), 1U) << i;
    ASSERT_EQ(grow(kCopy, 12), 12U) << i;
  }
}

TEST_F(MemoryGrowthTest, MemoryThatWasGivenBackIsNew) {
  grow(kCopy, 100);
  grow(kDear, 1000);
  growth.given_back(50 * kMiB);
  EXPECT_TRUE(growth.permits(50 * kMiB));
  EXPECT_FALSE(growth.permits(51 * kMiB));
}

TEST_F(MemoryGrowthTest, ACopyCostsWhatTheCheapestWriteDoes) {
  growth.written(kMiB, kMiB, microseconds(100));
  EXPECT_NEAR(static_cast<double>(growth.copy_cost(2 * kMiB).count()), 200e3, 100);
  growth.written(kMiB, kMiB, microseconds(60));
  growth.written(kMiB, kMiB, microseconds(80));
  EXPECT_NEAR(static_cast<double>(growth.copy_cost(kMiB).count()), 60e3, 100);
  growth.written(kMiB, kMiB, microseconds(0));
  EXPECT_GT(growth.copy_cost(kMiB).count(), 15e3) << "no copy is as fast";
}

}  // namespace
}  // namespace codecfs::fs
