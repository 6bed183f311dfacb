// What is read of a variable for a picture, and how much.

#include "commands/overview/sample.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/memory_source.h"

namespace codecfs::commands::overview {
namespace {

class SampleTest : public testing::Test {
 protected:
  /// A variable of bytes without a fill value that is told.
  void add(const std::vector<uint64_t>& shape, const std::vector<uint64_t>& chunks) {
    Variable variable = text_variable(shape, chunks);
    variable.fill = {std::byte{0}};
    source_.add_variable("/v", variable);
  }
  /// Stores in each chunk a byte that is its number + 1.
  void fill_chunks() {
    const Variable variable = source_.described("/v");
    for (uint64_t i = 0; i < variable.grid.count(); ++i)
      source_.put("/v", i, std::string(variable.grid.elements_per_chunk(), static_cast<char>(i + 1)));
  }
  Sample take(const SampleRules& rules = {}) {
    const Variable variable = source_.described("/v");
    return take_sample(source_, source_.object("/v"), variable, conventions_of(variable, variable.attributes), rules);
  }
  MemorySource source_;
};

TEST_F(SampleTest, HasAllOfASmallVariable) {
  add({4, 6}, {2, 3});
  fill_chunks();
  const Sample sample = take();
  EXPECT_TRUE(sample.has_all());
  EXPECT_TRUE(sample.is_whole);
  EXPECT_EQ(sample.kind, PictureKind::heat);
  EXPECT_EQ(sample.statistics.elements, 24U);
  EXPECT_EQ(sample.statistics.valid, 24U);
  EXPECT_EQ(sample.statistics.least, 1);
  EXPECT_EQ(sample.statistics.greatest, 4);
  EXPECT_EQ(sample.statistics.mean, 2.5);
  EXPECT_EQ(sample.shown, "[0:4, 0:6]");
  ASSERT_EQ(sample.cells.size(), 24U);
  EXPECT_EQ(sample.cells[0], 1);
  EXPECT_EQ(sample.cells[5], 2);
  EXPECT_EQ(sample.cells[23], 4);
}

TEST_F(SampleTest, ElementsBehindTheEndOfTheArrayDoNotCount) {
  add({3, 5}, {2, 4});
  source_.put("/v", 3, std::string("\x07\x63\x63\x63\x63\x63\x63\x63", 8));
  const Sample sample = take();
  EXPECT_EQ(sample.statistics.elements, 15U);
  EXPECT_EQ(sample.statistics.greatest, 7);
  EXPECT_EQ(sample.statistics.fill, 14U);
  EXPECT_EQ(sample.cells.back(), 7);
}

TEST_F(SampleTest, OneLongDimensionIsALine) {
  add({1, 50, 1}, {1, 10, 1});
  fill_chunks();
  const Sample sample = take({.line_width = 5});
  EXPECT_EQ(sample.kind, PictureKind::line);
  EXPECT_EQ(sample.cells, (std::vector<double>{1, 2, 3, 4, 5}));
  EXPECT_EQ(sample.shown, "[0, 0:50, 0]");
}

TEST_F(SampleTest, ShortDimensionsAreNoAxesBesideLongOnes) {
  add({20, 30, 2}, {20, 30, 2});
  EXPECT_EQ(take().shown, "[0:20, 0:30, 1]");
  EXPECT_EQ(row_dimension(source_.described("/v")), 0U);
}

TEST_F(SampleTest, OneElementHasNoPicture) {
  add({}, {});
  source_.put("/v", 0, "A");
  const Sample sample = take();
  EXPECT_EQ(sample.kind, PictureKind::none);
  EXPECT_EQ(sample.statistics.mean, 'A');
  EXPECT_FALSE(row_dimension(source_.described("/v")));
}

TEST_F(SampleTest, BytesWithThreeChannelsAreColours) {
  add({10, 12, 3}, {10, 12, 3});
  std::string pixels;
  for (int i = 0; i < 120; ++i) pixels += {static_cast<char>(i), 0, static_cast<char>(255 - i)};
  source_.put("/v", 0, pixels);
  const Sample sample = take();
  EXPECT_EQ(sample.kind, PictureKind::colours);
  EXPECT_EQ(std::string(sample.colours.begin(), sample.colours.end()), pixels);
}

TEST_F(SampleTest, ReadsNoMoreChunksThanAllowed) {
  add({1000, 1000}, {10, 10});
  fill_chunks();
  const Sample sample = take({.chunks = 16});
  EXPECT_LE(source_.reads, 16);
  EXPECT_EQ(sample.chunks, static_cast<uint64_t>(source_.reads));
  EXPECT_EQ(sample.all_chunks, 10'000U);
  EXPECT_FALSE(sample.has_all());
  EXPECT_FALSE(sample.is_whole);
}

TEST_F(SampleTest, ReadsNoMoreBytesThanAllowed) {
  add({1000, 1000}, {100, 100});
  fill_chunks();
  (void)take({.bytes = 40'000});
  EXPECT_LE(source_.reads, 4);
}

TEST_F(SampleTest, LargeChunksAreNotRead) {
  add({1000, 1000}, {1000, 1000});
  fill_chunks();
  const Sample sample = take({.chunk_bytes = 999'999});
  EXPECT_EQ(source_.reads, 0);
  ASSERT_TRUE(sample.none);
  EXPECT_NE(sample.none->find("too large"), std::string::npos);
}

TEST_F(SampleTest, LooksWhereChunksAreStored) {
  add({100, 1000, 1000}, {1, 100, 100});
  source_.put("/v", 99 * 100 + 45, std::string(10'000, 'x'));
  const Sample sample = take({.chunks = 9});
  EXPECT_EQ(sample.shown.substr(0, 4), "[99,");
  EXPECT_EQ(sample.statistics.greatest, 'x');
  EXPECT_LT(sample.statistics.valid, sample.statistics.fill + 10'001);
}

TEST_F(SampleTest, DamagedChunksAreErrorsAndTheOthersAreShown) {
  Variable variable = text_variable({4, 4}, {2, 2}, {deflate(1)});
  source_.add_variable("/v", variable);
  for (uint64_t i = 0; i < 4; ++i) source_.put("/v", i, "abcd");
  EXPECT_TRUE(source_.write_stored(source_.object("/v"), 2, bytes_of("no deflate stream")));
  const Sample sample = take();
  EXPECT_EQ(sample.errors.size(), 1U);
  EXPECT_FALSE(sample.has_all());
  EXPECT_EQ(sample.statistics.elements, 12U);
  EXPECT_TRUE(std::isnan(sample.cells[8]));
  EXPECT_EQ(sample.cells[0], 'a');
}

TEST_F(SampleTest, EmptyArraysAndUnreadableOnesSayWhy) {
  add({0, 3}, {1, 3});
  EXPECT_TRUE(take().none);
  Variable variable = text_variable({2}, {2});
  variable.unreadable = Error{EIO, "a reason"};
  source_.add_variable("/w", variable);
  const Sample sample = take_sample(source_, source_.object("/w"), variable, {}, {});
  EXPECT_EQ(sample.none, "a reason");
}

TEST_F(SampleTest, NumbersOfMaskedPixelsCountButAreNotShown) {
  Variable variable = text_variable({2, 8}, {2, 8});
  variable.type = {TypeKind::unsigned_int, ByteOrder::little, 4, {}, {}};
  variable.chunk_bytes = 64;
  variable.fill.clear();
  source_.add_variable("/v", variable);
  std::string elements(64, '\0');
  elements.replace(0, 4, "\xff\xff\xff\xff");
  source_.put("/v", 0, elements);
  const Sample sample = take();
  EXPECT_EQ(sample.statistics.greatest, 4294967295.0);
  EXPECT_TRUE(std::isnan(sample.cells[0]));
  EXPECT_EQ(sample.cells[1], 0);
}

TEST(OverviewAxis, ConsecutiveChunksAroundTheCentre) {
  const Axis axis = choose_chunks(0, 95, 10, 3, 5, false);
  EXPECT_EQ(axis.chosen, (std::vector<uint64_t>{4, 5, 6}));
  EXPECT_EQ(axis.length, 30U);
  EXPECT_FALSE(axis.is_whole());
  EXPECT_EQ(choose_chunks(0, 95, 10, 3, 0, false).chosen, (std::vector<uint64_t>{0, 1, 2}));
  EXPECT_EQ(choose_chunks(0, 95, 10, 3, 9, false).chosen, (std::vector<uint64_t>{7, 8, 9}));
  EXPECT_EQ(choose_chunks(0, 95, 10, 3, 9, false).length, 25U);
  const Axis all = choose_chunks(0, 95, 10, 99, 5, false);
  EXPECT_EQ(all.chosen.size(), 10U);
  EXPECT_TRUE(all.is_whole());
}

TEST(OverviewAxis, SpacedChunksHaveBothEnds) {
  EXPECT_EQ(choose_chunks(0, 100, 1, 3, 50, true).chosen, (std::vector<uint64_t>{0, 49, 99}));
  EXPECT_EQ(choose_chunks(0, 3, 1, 9, 1, true).chosen, (std::vector<uint64_t>{0, 1, 2}));
  EXPECT_EQ(choose_chunks(0, uint64_t{1} << 59, 1, 2, 0, true).chosen.size(), 2U);
}

TEST(OverviewSample, IsTurnedOver) {
  Sample sample;
  sample.width = 2;
  sample.height = 3;
  sample.cells = sample.low = sample.high = {1, 2, 3, 4, 5, 6};
  turn_over(sample);
  EXPECT_EQ(sample.cells, (std::vector<double>{5, 6, 3, 4, 1, 2}));
  EXPECT_EQ(sample.low, sample.cells);
  EXPECT_TRUE(sample.is_upward);
}

}  // namespace
}  // namespace codecfs::commands::overview
