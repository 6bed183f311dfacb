#include "backends/zarr/store/own_writes.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace codecfs::zarr {
namespace {

using Outcome = OwnWrites::Write::Outcome;
using Clock = OwnWrites::Clock;

void write(OwnWrites& writes, const std::string& key, Outcome outcome, uint64_t bytes = 0) {
  OwnWrites::Underway(writes, key).end(outcome, bytes);
}

TEST(OwnWrites, ReadsThatOverlapAWriteAreTold) {
  OwnWrites writes;
  const auto before = writes.mark_of("a");
  EXPECT_TRUE(writes.is_unchanged("a", before));
  auto underway = std::make_unique<OwnWrites::Underway>(writes, "a");
  EXPECT_FALSE(writes.is_unchanged("a", before)) << "the write may have happened";
  const auto during = writes.mark_of("a");
  EXPECT_FALSE(writes.is_unchanged("a", during));
  underway->end(Outcome::stored, 5);
  EXPECT_FALSE(writes.is_unchanged("a", before));
  EXPECT_FALSE(writes.is_unchanged("a", during));
  EXPECT_TRUE(writes.is_unchanged("a", writes.mark_of("a")));
  EXPECT_TRUE(writes.is_unchanged("b", writes.mark_of("b"))) << "another object";
}

TEST(OwnWrites, TellsTheLastWriteSinceATime) {
  OwnWrites writes;
  const auto start = Clock::now();
  EXPECT_FALSE(writes.of("a", start));
  write(writes, "a", Outcome::stored, 5);
  write(writes, "a", Outcome::removed);
  write(writes, "a", Outcome::stored, 7);
  ASSERT_TRUE(writes.of("a", start));
  EXPECT_EQ(writes.of("a", start)->outcome, Outcome::stored);
  EXPECT_EQ(writes.of("a", start)->bytes, 7U);
  EXPECT_FALSE(writes.of("a", Clock::now() + std::chrono::seconds(1)));
  const OwnWrites::Underway underway(writes, "a");
  EXPECT_EQ(writes.of("a", Clock::now() + std::chrono::seconds(1))->outcome, Outcome::unknown) << "not ended";
}

TEST(OwnWrites, AFailedWriteIsUnknown) {
  OwnWrites writes;
  const auto start = Clock::now();
  {
    const OwnWrites::Underway underway(writes, "a");
  }
  EXPECT_EQ(writes.of("a", start)->outcome, Outcome::unknown);
}

TEST(OwnWrites, TheOrderOfOverlappingWritesIsUnknown) {
  OwnWrites writes;
  const auto start = Clock::now();
  OwnWrites::Underway one(writes, "a");
  OwnWrites::Underway other(writes, "a");
  one.end(Outcome::stored, 1);
  other.end(Outcome::removed);
  EXPECT_EQ(writes.of("a", start)->outcome, Outcome::unknown);
  write(writes, "a", Outcome::stored, 3);
  EXPECT_EQ(writes.of("a", start)->outcome, Outcome::stored);
}

TEST(OwnWrites, ListsThoseBelowAPrefix) {
  OwnWrites writes;
  const auto start = Clock::now();
  for (const char* key : {"a/1", "a/0", "b/0", "a0"}) write(writes, key, Outcome::stored, 1);
  std::vector<std::string> seen;
  writes.for_each("a/", start, [&](const std::string& key, const auto&) { seen.push_back(key); });
  EXPECT_EQ(seen, (std::vector<std::string>{"a/0", "a/1"}));
  EXPECT_TRUE(writes.has_any("b/", start));
  EXPECT_FALSE(writes.has_any("c/", start));
}

TEST(OwnWrites, ForgetsInBounds) {
  OwnWrites writes;
  const auto start = Clock::now();
  const auto untouched = writes.mark_of("other");
  const OwnWrites::Underway underway(writes, "stays");
  for (size_t i = 0; i <= OwnWrites::kMax; ++i) write(writes, std::to_string(i), Outcome::stored, 1);
  EXPECT_GT(writes.known_since(), start) << "what began before must not be used";
  EXPECT_TRUE(writes.of("stays", start));
  EXPECT_FALSE(writes.of("0", start));
  EXPECT_FALSE(writes.is_unchanged("other", untouched)) << "it may have been one of those that were forgotten";
}

}  // namespace
}  // namespace codecfs::zarr
