// The colour map for each kind of data, and its ends.

#include "commands/overview/colours.h"

#include <gtest/gtest.h>

#include <cmath>

namespace codecfs::commands::overview {
namespace {

ColourScale scale_of(const std::vector<double>& cells, TypeKind kind = TypeKind::floating, uint64_t size = 4,
                     const Conventions& conventions = {}) {
  Variable facts;
  facts.type = {kind, ByteOrder::little, size, {}, {}};
  Sample sample;
  sample.cells = cells;
  return scale_for(facts, conventions, sample);
}

TEST(OverviewColours, NumbersOnOneSideOfZeroAreSequential) {
  const ColourScale scale = scale_of({3, 1, std::nan(""), 2});
  EXPECT_EQ(scale.map, ColourMap::sequential);
  EXPECT_EQ(scale.least, 1);
  EXPECT_EQ(scale.greatest, 3);
  EXPECT_EQ(scale.index_of(1, 128), 0U);
  EXPECT_EQ(scale.index_of(2, 128), 64U);
  EXPECT_EQ(scale.index_of(3, 128), 127U);
  EXPECT_EQ(scale.index_of(HUGE_VAL, 128), 127U);
  EXPECT_EQ(scale_of({-1, 100}).map, ColourMap::sequential) << "almost all on one side";
}

TEST(OverviewColours, NumbersAroundZeroAreDiverging) {
  const ColourScale scale = scale_of({-4, 0, 10});
  EXPECT_EQ(scale.map, ColourMap::diverging);
  EXPECT_EQ(scale.least, -10);
  EXPECT_EQ(scale.greatest, 10);
}

TEST(OverviewColours, ImagesOfBytesAreGreyUnlessTheyArePacked) {
  EXPECT_EQ(scale_of({0, 255}, TypeKind::unsigned_int, 1).map, ColourMap::grey);
  Conventions packed;
  packed.is_packed = true;
  EXPECT_EQ(scale_of({0, 255}, TypeKind::unsigned_int, 1, packed).map, ColourMap::sequential);
  EXPECT_EQ(scale_of({0, 255}, TypeKind::unsigned_int, 2).map, ColourMap::sequential);
}

TEST(OverviewColours, FlagsHaveAColourEach) {
  Conventions conventions;
  conventions.flags = {{0, "sea"}, {2, "land"}};
  const ColourScale scale = scale_of({0, 2, 5}, TypeKind::signed_int, 1, conventions);
  EXPECT_EQ(scale.map, ColourMap::named);
  EXPECT_EQ(scale.index_of(2, 128), 1U);
  EXPECT_EQ(scale.index_of(5, 128), 2U) << "no flag";
  EXPECT_NE(colour_of_name(0), colour_of_name(1));
}

TEST(OverviewColours, AFewOutliersDoNotTakeAllColours) {
  std::vector<double> cells(1000);
  for (size_t i = 0; i < cells.size(); ++i) cells[i] = static_cast<double>(i % 100) + 1;
  EXPECT_FALSE(scale_of(cells).is_cut);
  cells[10] = 1e9;
  const ColourScale scale = scale_of(cells);
  EXPECT_TRUE(scale.is_cut);
  EXPECT_LE(scale.greatest, 100);
  EXPECT_GE(scale.least, 1);
}

TEST(OverviewColours, OneNumberAloneHasTheColourInTheMiddle) {
  const ColourScale scale = scale_of({7, 7});
  EXPECT_EQ(scale.index_of(7, 128), 64U);
  EXPECT_EQ(scale_of({std::nan("")}).map, ColourMap::sequential);
}

TEST(OverviewColours, MapsBeginAndEndAsTheyShould) {
  EXPECT_EQ(hexadecimal(colour_at(ColourMap::grey, 0)), "#000000");
  EXPECT_EQ(hexadecimal(colour_at(ColourMap::grey, 1)), "#ffffff");
  EXPECT_EQ(hexadecimal(colour_at(ColourMap::grey, 7)), "#ffffff");
  EXPECT_EQ(hexadecimal(colour_at(ColourMap::sequential, 0)), "#440154");
  double before = -1;
  for (int i = 0; i <= 50; ++i) {
    const Colour colour = colour_at(ColourMap::sequential, i / 50.0);
    const double light = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2];
    EXPECT_GT(light, before) << i;
    before = light;
  }
}

}  // namespace
}  // namespace codecfs::commands::overview
