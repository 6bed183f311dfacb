// The first elements of an array, across its chunks.

#include "commands/first_values.h"

#include <gtest/gtest.h>

#include "model/json.h"
#include "support/memory_source.h"

namespace codecfs::commands {
namespace {

class FirstValuesTest : public testing::Test {
 protected:
  FirstValues first(size_t most) { return first_values(source_, source_.object("/v"), source_.described("/v"), most); }
  MemorySource source_;
};

TEST_F(FirstValuesTest, AreInTheOrderOfTheArray) {
  source_.add_variable("/v", text_variable({2, 5}, {2, 2}));
  source_.put("/v", 0, "\x01\x02\x06\x07");
  source_.put("/v", 1, "\x03\x04\x08\x09");
  source_.put("/v", 2, "\x05?\x0a?");
  EXPECT_EQ(first(3).texts, (std::vector<std::string>{"1", "2", "3"}));
  EXPECT_FALSE(first(3).is_all);
  const FirstValues all = first(10);
  EXPECT_TRUE(all.is_all);
  ASSERT_EQ(all.values.size(), 10U);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(all.values[static_cast<size_t>(i)], Json(i + 1));
}

TEST_F(FirstValuesTest, AreFillWhereNothingIsStored) {
  source_.add_variable("/v", text_variable({4}, {2}));
  source_.put("/v", 1, "\x01\x02");
  EXPECT_EQ(first(9).texts, (std::vector<std::string>{"46", "46", "1", "2"}));
}

TEST_F(FirstValuesTest, AreNoneOfEmptyArraysAndOneOfScalars) {
  source_.add_variable("/v", text_variable({0, 3}, {1, 3}));
  EXPECT_TRUE(first(3).texts.empty());
  EXPECT_TRUE(first(3).is_all);
  EXPECT_TRUE(source_.remove(source_.root().object, "v"));
  source_.add_variable("/v", text_variable({}, {}));
  EXPECT_EQ(first(3).texts.size(), 1U);
  EXPECT_TRUE(first(3).is_all);
}

TEST_F(FirstValuesTest, EndWithAnError) {
  source_.add_variable("/v", text_variable({4}, {2}, {deflate(1)}));
  source_.put("/v", 0, "\x01\x02");
  EXPECT_TRUE(source_.write_stored(source_.object("/v"), 1, bytes_of("damage")));
  EXPECT_FALSE(first(2).error);
  EXPECT_EQ(first(3).texts.size(), 2U);
  EXPECT_TRUE(first(3).error);
}

TEST_F(FirstValuesTest, AreNotReadFromHugeChunks) {
  Variable variable = text_variable({uint64_t{1} << 31}, {uint64_t{1} << 31});
  source_.add_variable("/v", variable);
  EXPECT_TRUE(first(3).error);
  EXPECT_EQ(source_.reads, 0);
}

}  // namespace
}  // namespace codecfs::commands
