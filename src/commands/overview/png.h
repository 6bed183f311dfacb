#pragma once
// Small PNG images. Source: PNG specification (W3C), "Datastream structure"; RFC 1950.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "commands/overview/colours.h"

namespace codecfs::commands::overview {

/// An image with a palette of at most 256 colours, of which the last one is transparent. `indices`: row by row.
std::string palette_png(size_t width, size_t height, std::span<const Colour> palette, std::span<const uint8_t> indices);

/// An image of `width` * `height` pixels of three bytes.
std::string colour_png(size_t width, size_t height, std::span<const uint8_t> pixels);

}  // namespace codecfs::commands::overview
