// Selection of the inodes in a range about which the kernel must be notified.

#include "fs/nodes/known_inodes.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace codecfs::fs {
namespace {

TEST(KnownInodes, NothingIsToldOfWhatNobodyLookedUp) {
  const KnownInodes known;
  EXPECT_TRUE(known.within({1, uint64_t{1} << 40}).empty());
  EXPECT_TRUE(known.within({1, 0}).empty());
}

TEST(KnownInodes, EveryKnownOneOfARangeIsInItAndNoOther) {
  std::mt19937_64 random(1);
  KnownInodes known;
  std::set<Ino> all;
  for (int i = 0; i < 300; ++i) {
    const Ino ino = (random() % 3) << kLocalBits | (16 + random() % 100'000);
    known.add(ino);
    all.insert(ino);
  }
  for (int i = 0; i < 1000; ++i) {
    const Ino first = (random() % 3) << kLocalBits | (16 + random() % 100'000);
    const uint64_t count = 1 + random() % (i % 2 == 0 ? 100 : 50'000);
    Ino last = 0;  // ranges are in order and apart
    std::set<Ino> found;
    for (const KnownInodes::Range& range : known.within({first, count})) {
      ASSERT_GT(range.count, 0U);
      ASSERT_GE(range.first, std::max(first, last));
      last = range.first + range.count;
      ASSERT_LE(last, first + count);
      found.insert(all.lower_bound(range.first), all.lower_bound(last));
    }
    ASSERT_EQ(found, std::set<Ino>(all.lower_bound(first), all.lower_bound(first + count)));
  }
}

TEST(KnownInodes, AFewOfManyAreFew) {
  KnownInodes known;
  known.add(5'000'000);
  uint64_t told = 0;
  for (const KnownInodes::Range& range : known.within({16, uint64_t{1} << 40})) told += range.count;
  EXPECT_GE(told, 1U);
  EXPECT_LE(told, 5000U);
}

TEST(KnownInodes, WhereTooManyAreKnownAllAre) {
  KnownInodes known;
  for (Ino i = 0; i < 400'000; ++i) known.add(i << 20);
  EXPECT_EQ(known.within({7, 1000}), (std::vector<KnownInodes::Range>{{7, 1000}}));
  EXPECT_EQ(known.within({7, uint64_t{1} << 40}).front().count, uint64_t{1} << 22);
}

TEST(KnownInodes, ManyNamesOfAFolderTakeNoPlace) {
  KnownInodes known;
  known.add(5'000'000);
  for (uint64_t i = 0; i < 400'000; ++i) known.add(kPlainSlot << kLocalBits | i << 16);
  EXPECT_TRUE(known.contains(kPlainSlot << kLocalBits | 1 << 16));
  EXPECT_FALSE(known.contains(7'000'000));
  EXPECT_EQ(known.within({1, kPlainSlot << kLocalBits}).size(), 1);
}

}  // namespace
}  // namespace codecfs::fs
