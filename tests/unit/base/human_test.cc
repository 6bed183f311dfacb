// Quantities as people read them.

#include "base/human.h"

#include <gtest/gtest.h>

namespace codecfs {
namespace {

TEST(Human, BytesHaveAtMostThreeDigits) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.00 KiB");
  EXPECT_EQ(human_bytes(1536), "1.50 KiB");
  EXPECT_EQ(human_bytes(10'230), "9.99 KiB");
  EXPECT_EQ(human_bytes(10'240), "10.0 KiB");
  EXPECT_EQ(human_bytes(102'290), "99.9 KiB");
  EXPECT_EQ(human_bytes(102'400), "100 KiB");
  EXPECT_EQ(human_bytes(uint64_t{210} << 30), "210 GiB");
  EXPECT_EQ(human_bytes(UINT64_MAX), "16.0 EiB");
}

TEST(Human, BytesThatRoundUpGetTheNextUnit) {
  EXPECT_EQ(human_bytes((1 << 20) - 1), "1.00 MiB");
  EXPECT_EQ(human_bytes(1023 * 1024), "1023 KiB");
}

TEST(Human, Durations) {
  using std::chrono::seconds;
  EXPECT_EQ(human_duration(seconds(0)), "0 s");
  EXPECT_EQ(human_duration(seconds(59)), "59 s");
  EXPECT_EQ(human_duration(seconds(185)), "3:05");
  EXPECT_EQ(human_duration(seconds(7200)), "2:00:00");
  EXPECT_EQ(human_duration(seconds(360'061)), "100:01:01");
}

TEST(Human, CountsHaveSeparators) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(1000), "1,000");
  EXPECT_EQ(human_count(1'048'576), "1,048,576");
  EXPECT_EQ(human_count(UINT64_MAX), "18,446,744,073,709,551,615");
}

TEST(Human, NounsHaveAPlural) {
  EXPECT_EQ(counted(0, "chunk"), "0 chunks");
  EXPECT_EQ(counted(1, "chunk"), "1 chunk");
  EXPECT_EQ(counted(2000, "chunk"), "2,000 chunks");
}

}  // namespace
}  // namespace codecfs
