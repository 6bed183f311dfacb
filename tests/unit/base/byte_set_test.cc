#include "base/byte_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace codecfs {
namespace {

TEST(ByteSet, HasWhatWasAdded) {
  ByteSet set;
  EXPECT_TRUE(set.is_empty());
  EXPECT_FALSE(set.has(0));
  EXPECT_TRUE(set.has_first(0));
  set.add(60, 10);
  EXPECT_FALSE(set.has(59));
  EXPECT_TRUE(set.has(60));
  EXPECT_TRUE(set.has(69));
  EXPECT_FALSE(set.has(70));
  EXPECT_FALSE(set.has_first(70));
  set.add(0, 60);
  EXPECT_TRUE(set.has_first(70));
  EXPECT_FALSE(set.has_first(71));
  set.add_all();
  EXPECT_TRUE(set.has_first(1'000'000));
}

TEST(ByteSet, AMaskSelects) {
  ByteSet set;
  const std::vector<std::byte> mask{std::byte{0}, std::byte{0xff}, std::byte{0}};
  set.add(63, 3, mask);
  EXPECT_FALSE(set.has(63));
  EXPECT_TRUE(set.has(64));
  EXPECT_FALSE(set.has(65));
}

TEST(ByteSet, IsAsAVectorOfFlags) {
  std::minstd_rand random(7);
  for (int round = 0; round < 200; ++round) {
    const size_t size = 1 + random() % 300;
    std::vector<bool> flags(size);
    ByteSet set;
    ByteSet other;
    for (unsigned i = 0; i < random() % 6; ++i) {
      const size_t first = random() % size;
      const size_t count = random() % (size - first + 1);
      (i % 2 == 0 ? set : other).add(first, count);
      for (size_t at = first; at < first + count; ++at) flags[at] = true;
    }
    set.add(other);
    std::vector<std::byte> from(size, std::byte{1});
    std::vector<std::byte> to(size, std::byte{2});
    set.copy(from, to);
    size_t run = 0;
    while (run < size && flags[run]) ++run;
    EXPECT_TRUE(set.has_first(run));
    EXPECT_EQ(set.has_first(std::min(run + 1, size)), run == size);
    for (size_t at = 0; at < size; ++at) {
      ASSERT_EQ(set.has(at), flags[at]) << at;
      ASSERT_EQ(to[at], flags[at] ? std::byte{1} : std::byte{2}) << at;
    }
  }
}

}  // namespace
}  // namespace codecfs
