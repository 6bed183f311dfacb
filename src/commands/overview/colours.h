#pragma once
// Colours for numbers: the map for the kind of data, and the numbers at its ends.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commands/overview/numbers.h"
#include "commands/overview/sample.h"
#include "model/variable.h"

namespace codecfs::commands::overview {

using Colour = std::array<uint8_t, 3>;  // red, green, blue

enum class ColourMap {
  sequential,  // dark to bright
  diverging,   // around 0, which is bright
  grey,        // images of bytes
  named,       // a colour for each value that has a name
};

/// "sequential": the name of its class in the page.
std::string_view name_of(ColourMap map);

/// `position`: 0 to 1. Not for ColourMap::named.
Colour colour_at(ColourMap map, double position);
/// Of the value with this index; they repeat.
Colour colour_of_name(size_t index);
/// "#1f9e89".
std::string hexadecimal(Colour colour);

/// Which colour a number has.
struct ColourScale {
  ColourMap map = ColourMap::sequential;
  double least = 0;  // the numbers at the ends
  double greatest = 0;
  bool is_cut = false;      // there are numbers beyond the ends, which have the colours of the ends
  std::vector<Flag> names;  // of ColourMap::named

  /// 0 to `colours` - 1; of ColourMap::named the index of the name, or names.size() for a value without one.
  [[nodiscard]] size_t index_of(double number, size_t colours) const;
};

/// The scale for the cells of a picture. A few values far from all others do not take all of the colours: then the ends
/// are percentiles.
ColourScale scale_for(const Variable& facts, const Conventions& conventions, const Sample& sample);

}  // namespace codecfs::commands::overview
