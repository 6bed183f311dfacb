// Which changes are held until they are sealed, and when it is time to seal.

#include "backends/worker/held_writes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace codecfs::worker {
namespace {

class HeldWritesTest : public testing::Test {
 protected:
  uint64_t add(uint64_t chunk, const std::string& text) {
    return *held_.add(
        {.call = call_of<&Source::write_chunk>, .variable = 1, .chunk = chunk, .bytes = std::as_bytes(std::span(text))},
        0);
  }
  std::vector<std::pair<uint64_t, std::string>> all() {
    std::vector<std::pair<uint64_t, std::string>> found;
    EXPECT_TRUE(held_.make_again([&](const HeldWrites::Write& write) -> Result<> {
      found.emplace_back(write.chunk,
                         std::string(reinterpret_cast<const char*>(write.bytes.data()), write.bytes.size()));
      return {};
    }));
    return found;
  }
  void drop_confirmed() {
    for (const HeldWrites::Held& held : held_.confirmed()) held_.drop(held.number);
  }
  HeldWrites held_;
};

TEST_F(HeldWritesTest, SmallOnesAreCopiedAndKeepTheirOrder) {
  std::string text = "first";
  EXPECT_FALSE(held_.confirm(add(7, text)));
  text = "again";
  const uint64_t unconfirmed = add(7, text);
  text = "other";
  EXPECT_FALSE(held_.confirm(add(3, text)));
  text.clear();
  using All = std::vector<std::pair<uint64_t, std::string>>;
  EXPECT_EQ(all(), (All{{7, "first"}, {7, "again"}, {3, "other"}}));
  drop_confirmed();
  EXPECT_EQ(all(), (All{{7, "again"}}));
  held_.drop(unconfirmed);
  EXPECT_TRUE(held_.is_empty());
}

TEST_F(HeldWritesTest, ALargeOneIsSealedAtOnceAndNotCopied) {
  std::string text(HeldWrites::kSmall + 1, 'x');
  const uint64_t number = add(1, text);
  text[5] = 'y';
  EXPECT_EQ(all()[0].second[5], 'y');
  EXPECT_TRUE(held_.confirm(number));
}

TEST_F(HeldWritesTest, ManySmallOnesAreSealedTogether) {
  const std::string text(4096, 'x');
  size_t until = 0;
  while (!held_.confirm(add(until, text))) ++until;
  EXPECT_GT(until, 20U);
  EXPECT_LT(until, 1000U);
  drop_confirmed();
  EXPECT_FALSE(held_.confirm(add(0, text)));
  size_t number = 0;
  for (HeldWrites removals; !removals.confirm(*removals.add({call_of<&Source::remove_chunk>, 1, 2, {}}, 0));) ++number;
  EXPECT_LT(number, 10'000U);
}

TEST_F(HeldWritesTest, AChangeThatIsMadeAgainPutsLaterOnesOfItsChunkOutOfDate) {
  const uint64_t older = add(7, "older");
  const uint64_t other = add(8, "other");
  const uint64_t newer = add(7, "newer");
  EXPECT_FALSE(held_.drop_if_current(older, 1));
  held_.confirm_again(older, 1);
  EXPECT_FALSE(held_.drop_if_current(newer, 0));
  EXPECT_TRUE(held_.drop_if_current(other, 0));
  held_.confirm_again(newer, 1);
  EXPECT_TRUE(held_.drop_if_current(older, 1));
  EXPECT_TRUE(held_.drop_if_current(newer, 1));
  EXPECT_TRUE(held_.is_empty());
}

TEST_F(HeldWritesTest, AFailureEndsTheRepetition) {
  (void)held_.confirm(add(1, "a"));
  (void)held_.confirm(add(2, "b"));
  const auto make = [](const HeldWrites::Write&) -> Result<> { return fail(ENOSPC, "no room"); };
  EXPECT_EQ(held_.make_again(make).error().code, ENOSPC);
  EXPECT_EQ(all().size(), 2U);
}

TEST_F(HeldWritesTest, WhatMayHaveEndedTheProcessIsNotMadeAgainTwice) {
  (void)held_.confirm(add(1, "a"));
  const uint64_t in_a_call = add(2, "b");
  EXPECT_EQ(all().size(), 2U);
  const auto end_at = [](const HeldWrites::Write& write) {
    return write.chunk == 2 ? Result<>(fail(EPIPE, "the process has ended")) : Result<>();
  };
  EXPECT_FALSE(held_.make_again(end_at));
  EXPECT_TRUE(held_.make_again(end_at));
  EXPECT_EQ(all().size(), 1U);
  (void)held_.confirm(in_a_call);  // its caller has made it
  EXPECT_EQ(all().size(), 2U);
}

}  // namespace
}  // namespace codecfs::worker
