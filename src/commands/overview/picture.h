#pragma once
// The picture of a sample as a part of an HTML page: an image in the page itself, with its scale.

#include <string>

#include "commands/overview/colours.h"
#include "commands/overview/sample.h"

namespace codecfs::commands::overview {

/// Empty if the sample has no picture. `title`: what it shows, for readers that do not see it; not escaped yet.
std::string picture_html(const Sample& sample, const ColourScale& scale, const std::string& title);

/// The rules of CSS that it needs.
std::string picture_css();

}  // namespace codecfs::commands::overview
