#pragma once
// `codecfs info --plot`: a picture of a variable in a terminal, or in plain characters.

#include <cstddef>
#include <string>

#include "backends/api/source.h"
#include "commands/dataset_info.h"
#include "commands/overview/colours.h"
#include "commands/overview/sample.h"

namespace codecfs::commands::overview {

struct PlotStyle {
  size_t columns = 80;   // of the terminal
  bool colours = false;  // half blocks in 256 colours; else ASCII
};

/// The cells for such a picture.
SampleRules rules_for(const PlotStyle& style);

/// Reads a variable, with InfoNode::details if it has some, and draws it: lines, with its statistics and scale, or why
/// there is none.
std::string plot_text(Source& source, const InfoNode& node, const PlotStyle& style);

/// The picture of a sample of rules_for(style). Empty if it has none.
std::string text_picture(const Sample& sample, const ColourScale& scale, const PlotStyle& style);

/// The number of the nearest colour of a terminal with 256.
unsigned terminal_colour(Colour colour);

}  // namespace codecfs::commands::overview
