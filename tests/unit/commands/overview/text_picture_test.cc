// Pictures in a terminal and in plain characters.

#include "commands/overview/text_picture.h"

#include <gtest/gtest.h>

#include <cmath>

namespace codecfs::commands::overview {
namespace {

Sample heat(size_t width, std::vector<double> cells) {
  Sample sample;
  sample.kind = PictureKind::heat;
  sample.width = width;
  sample.height = cells.size() / width;
  sample.low = sample.high = cells;
  sample.cells = std::move(cells);
  return sample;
}

ColourScale from_to(double least, double greatest) {
  ColourScale scale;
  scale.least = least;
  scale.greatest = greatest;
  return scale;
}

TEST(OverviewTextPicture, PlainCharacters) {
  const Sample sample = heat(2, {0, 8.9, std::nan(""), 4.5});
  EXPECT_EQ(text_picture(sample, from_to(0, 9), {}), "..@@\n  ++\n0 .:-=+*#%@ 9\n");
}

TEST(OverviewTextPicture, HalfBlocksInColours) {
  ColourScale grey = from_to(0, 1);
  grey.map = ColourMap::grey;
  const std::string text = text_picture(heat(1, {0, 1, 1}), grey, {.colours = true});
  EXPECT_EQ(text.substr(0, text.find('\n', text.find('\n') + 1)),
            "\x1b[38;5;16;48;5;231m▀\x1b[0m\n\x1b[38;5;231m▀\x1b[0m");
}

TEST(OverviewTextPicture, ALineGoesFromItsLeastToItsGreatest) {
  Sample sample = heat(3, {0, 5, 10});
  sample.kind = PictureKind::line;
  const std::string text = text_picture(sample, {}, {});
  EXPECT_EQ(text.substr(0, text.find('\n')), "         10 |   *");
  EXPECT_NE(text.find("          0 | *\n"), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 12);
}

TEST(OverviewTextPicture, NothingToShow) {
  EXPECT_EQ(text_picture({}, {}, {}), "");
  EXPECT_EQ(text_picture(heat(1, {std::nan("")}), {}, {}), "");
}

TEST(OverviewTextPicture, ColoursOfTerminals) {
  EXPECT_EQ(terminal_colour({0, 0, 0}), 16U);
  EXPECT_EQ(terminal_colour({255, 255, 255}), 231U);
  EXPECT_EQ(terminal_colour({255, 0, 0}), 196U);
  EXPECT_EQ(terminal_colour({128, 128, 128}), 244U);
  EXPECT_EQ(terminal_colour({95, 135, 175}), 67U);
}

TEST(OverviewTextPicture, FitsTheTerminal) {
  for (const size_t columns : {size_t{0}, size_t{30}, size_t{80}, size_t{500}}) {
    EXPECT_LE(rules_for({.columns = columns, .colours = true}).width, std::max<size_t>(columns, 20));
    EXPECT_LE(2 * rules_for({.columns = columns}).width, std::max<size_t>(columns, 20));
  }
}

}  // namespace
}  // namespace codecfs::commands::overview
