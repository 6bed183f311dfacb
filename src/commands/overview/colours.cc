#include "commands/overview/colours.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace codecfs::commands::overview {
namespace {

// Colours at equal distances. Of equal steps in brightness, and told apart with any kind of colour vision.
constexpr std::array<Colour, 10> kSequential{{{0x44, 0x01, 0x54},
                                              {0x48, 0x28, 0x78},
                                              {0x3e, 0x49, 0x89},
                                              {0x31, 0x68, 0x8e},
                                              {0x26, 0x82, 0x8e},
                                              {0x1f, 0x9e, 0x89},
                                              {0x35, 0xb7, 0x79},
                                              {0x6e, 0xce, 0x58},
                                              {0xb5, 0xde, 0x2b},
                                              {0xfd, 0xe7, 0x25}}};
constexpr std::array<Colour, 7> kDiverging{{{0x16, 0x32, 0x70},
                                            {0x38, 0x6f, 0xb4},
                                            {0x93, 0xbd, 0xe0},
                                            {0xf4, 0xf4, 0xf2},
                                            {0xec, 0xa8, 0x8c},
                                            {0xc6, 0x4f, 0x3e},
                                            {0x76, 0x12, 0x24}}};
constexpr std::array<Colour, 2> kGrey{{{0, 0, 0}, {255, 255, 255}}};
constexpr std::array<Colour, 10> kNamed{{{0x00, 0x72, 0xb2},
                                         {0xe6, 0x9f, 0x00},
                                         {0x00, 0x9e, 0x73},
                                         {0xcc, 0x79, 0xa7},
                                         {0x56, 0xb4, 0xe9},
                                         {0xd5, 0x5e, 0x00},
                                         {0xf0, 0xe4, 0x42},
                                         {0x6b, 0x4c, 0x9a},
                                         {0x8c, 0x56, 0x4b},
                                         {0x99, 0x99, 0x99}}};

constexpr double kComparable = 0.2;  // how far a diverging scale reaches on the smaller side of 0, at least
constexpr double kOutliers = 0.02;   // share of cells beyond the ends of a scale, on each side
constexpr double kFar = 3;           // ends are percentiles if the others are so many times as far apart

Colour between(std::span<const Colour> colours, double position) {
  const double at = std::clamp(position, 0.0, 1.0) * static_cast<double>(colours.size() - 1);
  const auto below = std::min(static_cast<size_t>(at), colours.size() - 2);
  const double part = at - static_cast<double>(below);
  Colour mixed{};
  for (size_t c = 0; c < mixed.size(); ++c)
    mixed[c] = static_cast<uint8_t>(std::lround(colours[below][c] * (1 - part) + colours[below + 1][c] * part));
  return mixed;
}

std::span<const Colour> colours_of(ColourMap map) {
  if (map == ColourMap::diverging) return kDiverging;
  if (map == ColourMap::grey) return kGrey;
  return kSequential;
}

}  // namespace

std::string_view name_of(ColourMap map) {
  switch (map) {
    case ColourMap::sequential: return "sequential";
    case ColourMap::diverging: return "diverging";
    case ColourMap::grey: return "grey";
    case ColourMap::named: break;
  }
  return "named";
}

Colour colour_at(ColourMap map, double position) { return between(colours_of(map), position); }

Colour colour_of_name(size_t index) { return kNamed[index % kNamed.size()]; }

std::string hexadecimal(Colour colour) { return fmt::format("#{:02x}{:02x}{:02x}", colour[0], colour[1], colour[2]); }

size_t ColourScale::index_of(double number, size_t colours) const {
  if (map == ColourMap::named)
    return static_cast<size_t>(std::ranges::find(names, number, &Flag::value) - names.begin());
  if (!(greatest > least)) return colours / 2;
  const double position = std::clamp((number - least) / (greatest - least), 0.0, 1.0);
  return std::min(static_cast<size_t>(position * static_cast<double>(colours)), colours - 1);
}

ColourScale scale_for(const Variable& facts, const Conventions& conventions, const Sample& sample) {
  ColourScale scale;
  if (!conventions.flags.empty()) {
    scale.map = ColourMap::named;
    scale.names = conventions.flags;
    for (Flag& flag : scale.names) flag.value = conventions.unpacked(flag.value);
    return scale;
  }
  std::vector<double> cells;
  for (const double cell : sample.cells)
    if (std::isfinite(cell)) cells.push_back(cell);
  if (cells.empty()) return scale;
  std::ranges::sort(cells);
  scale.least = cells.front();
  scale.greatest = cells.back();
  const bool is_byte = facts.type.kind == TypeKind::unsigned_int && facts.type.size == 1;
  if (is_byte && !conventions.is_packed) {
    scale.map = ColourMap::grey;
    return scale;
  }
  const auto beyond = static_cast<size_t>(kOutliers * static_cast<double>(cells.size()));
  const double low = cells[beyond];
  const double high = cells[cells.size() - 1 - beyond];
  if (high > low && scale.greatest - scale.least > kFar * (high - low)) {
    scale.is_cut = true;
    scale.least = low;
    scale.greatest = high;
  }
  const double larger = std::max(-scale.least, scale.greatest);
  const double smaller = std::min(-scale.least, scale.greatest);
  if (smaller > 0 && smaller >= kComparable * larger) {
    scale.map = ColourMap::diverging;
    scale.least = -larger;
    scale.greatest = larger;
  }
  return scale;
}

}  // namespace codecfs::commands::overview
