// The places of stored chunks in a file; damage that only a mount test can make is in
// tests/mount/commands/test_verify.py.

#include "commands/verify.h"

#include <gtest/gtest.h>

#include "support/environment.h"
#include "support/memory_source.h"

namespace codecfs::commands {
namespace {

class LaidOutSource : public MemorySource {
 public:
  Result<ChunkInfo> locate(ObjectId id, uint64_t number) override {
    Result<ChunkInfo> place = MemorySource::locate(id, number);
    if (place) place->offset = offsets.at(number);
    return place;
  }
  std::vector<uint64_t> offsets;
};

class VerifyTest : public testing::Test {
 protected:
  VerifyTest() {
    source_.add_variable("/v", text_variable({8}, {2}));
    for (uint64_t number = 0; number < 4; ++number)
      EXPECT_TRUE(source_.write_chunk(source_.object("/v"), number, bytes_of("ab")));
  }
  LaidOutSource source_;
};

TEST_F(VerifyTest, ChunksBesideEachOtherAreWhole) {
  source_.offsets = {106, 100, 102, 104};
  const Result<Verification> found = verify(source_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->chunks, 4U);
  EXPECT_EQ(found->damages, 0U);
  EXPECT_EQ(found->not_compared, 0U);
}

TEST_F(VerifyTest, ChunksThatOverlapAreDamage) {
  source_.offsets = {100, 103, 102, 106};
  const Result<Verification> found = verify(source_);
  ASSERT_TRUE(found);
  ASSERT_EQ(found->damages, 1U);
  EXPECT_EQ(found->damaged[0].chunk, "1");
  EXPECT_NE(found->damaged[0].reason.find("overlaps that of chunk 2"), std::string::npos) << found->damaged[0].reason;
}

TEST_F(VerifyTest, PlacesThatDoNotFitIntoMemoryAreComparedToo) {
  source_.offsets = {100, 103, 102, 106};
  for (const size_t in_memory : {1U, 2U, 3U, 4U}) {
    const Result<Verification> found = verify(source_, in_memory);
    ASSERT_TRUE(found);
    ASSERT_EQ(found->damages, 1U) << in_memory;
    EXPECT_EQ(found->damaged[0].chunk, "1");
    EXPECT_EQ(found->not_compared, 0U);
  }
}

TEST_F(VerifyTest, WhatIsNotComparedIsCounted) {
  source_.offsets = {100, 100, 100, 100};
  ScopedEnvironment environment;
  environment.set("TMPDIR", "/nonexistent");
  const Result<Verification> found = verify(source_, 2);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->damages, 1U);
  EXPECT_EQ(found->not_compared, 2U);
  EXPECT_NE(verification_text(*found, "a").find("not compared with the places of the others: 2 chunks"),
            std::string::npos);
}

}  // namespace
}  // namespace codecfs::commands
