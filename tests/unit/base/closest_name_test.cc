#include "base/closest_name.h"

#include <gtest/gtest.h>

#include <array>

namespace codecfs {
namespace {

TEST(EditDistance, CountsEachKindOfEditOnce) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("zstd", "zstd"), 0);
  EXPECT_EQ(edit_distance("ZSTD", "zstd"), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("shufle", "shuffle"), 1) << "insert";
  EXPECT_EQ(edit_distance("shufffle", "shuffle"), 1) << "remove";
  EXPECT_EQ(edit_distance("shuffke", "shuffle"), 1) << "replace";
  EXPECT_EQ(edit_distance("shuflfe", "shuffle"), 1) << "swap";
  EXPECT_EQ(edit_distance("zsdt", "zstd"), 1) << "swap at the end";
  EXPECT_EQ(edit_distance("szip", "zip"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("bzip2", "blosc"), edit_distance("blosc", "bzip2"));
}

constexpr std::array<std::string_view, 6> kNames{"shuffle", "deflate", "zstd", "lz4", "lzf", "bitshuffle"};

TEST(ClosestName, IsNearEnough) {
  EXPECT_EQ(closest_name("shufle", kNames), "shuffle");
  EXPECT_EQ(closest_name("delfate", kNames), "deflate");
  EXPECT_EQ(closest_name("zst", kNames), "zstd");
  EXPECT_EQ(closest_name("lz", kNames), "lz4") << "the first of equals";
  EXPECT_EQ(closest_name("bitshufle", kNames), "bitshuffle");
}

TEST(ClosestName, IsNoneForOtherWords) {
  for (const char* word : {"", "z", "xy", "foo", "zip7", "something", "shuf"})
    EXPECT_EQ(closest_name(word, kNames), "") << word;
  EXPECT_EQ(closest_name(std::string(1'000'000, 'x'), kNames), "");
}

TEST(ClosestName, IsASentence) {
  EXPECT_EQ(did_you_mean("shufle", kNames), "; did you mean shuffle?");
  EXPECT_EQ(did_you_mean("other", kNames), "");
}

}  // namespace
}  // namespace codecfs
