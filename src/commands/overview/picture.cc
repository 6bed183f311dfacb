#include "commands/overview/picture.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "commands/overview/html.h"
#include "commands/overview/png.h"
#include "model/base64.h"

namespace codecfs::commands::overview {
namespace {

constexpr size_t kColours = 128;       // of a palette
constexpr size_t kNamesInLegend = 12;  // more would be higher than the picture
constexpr size_t kNameBytes = 40;      // of a name there
constexpr double kBoxWidth = 176;      // pixels in which a picture fits
constexpr double kBoxHeight = 112;
constexpr int kPlotHeight = 80;  // units of a line's drawing, which is stretched
constexpr double kMargin = 3;    // of them, above and below the line

std::string image_html(const std::string& png, const Sample& sample, const std::string& title) {
  const auto bytes = std::as_bytes(std::span(png));
  const double width = std::min(kBoxWidth, kBoxHeight / sample.aspect);
  return fmt::format(
      "<img class=\"px\" width=\"{:.0f}\" height=\"{:.0f}\" alt=\"{}\" src=\"data:image/png;base64,{}\">", width,
      std::max(width * sample.aspect, 1.0), escaped(title), encode_base64(bytes));
}

std::string heat_png(const Sample& sample, const ColourScale& scale) {
  std::vector<Colour> palette;
  if (scale.map == ColourMap::named) {
    palette.resize(std::min<size_t>(scale.names.size(), 255));
    for (size_t i = 0; i < palette.size(); ++i) palette[i] = colour_of_name(i);
  } else {
    for (size_t i = 0; i < kColours; ++i)
      palette.push_back(colour_at(scale.map, static_cast<double>(i) / (kColours - 1)));
  }
  const size_t none = palette.size();
  palette.push_back({});
  std::vector<uint8_t> indices;
  for (const double cell : sample.cells)
    indices.push_back(static_cast<uint8_t>(std::isnan(cell) ? none : std::min(scale.index_of(cell, kColours), none)));
  return palette_png(sample.width, sample.height, palette, indices);
}

/// The least and the greatest number that a line has.
std::pair<double, double> range_of(const Sample& sample) {
  double low = HUGE_VAL;
  double high = -HUGE_VAL;
  for (size_t x = 0; x < sample.width; ++x) {
    if (std::isfinite(sample.low[x])) low = std::min(low, sample.low[x]);
    if (std::isfinite(sample.high[x])) high = std::max(high, sample.high[x]);
  }
  return {low, high};
}

std::string line_html(const Sample& sample, const std::string& title) {
  const auto [least, greatest] = range_of(sample);
  if (!(least <= greatest)) return {};
  const double span = greatest > least ? greatest - least : 1;
  const double base = greatest > least ? least : least - 0.5;
  const auto height_of = [&, low = base](double number) {
    const double part = std::clamp((number - low) / span, 0.0, 1.0);
    return kMargin + (1 - part) * (kPlotHeight - 2 * kMargin);
  };
  std::string area;
  std::string line;
  bool is_open = false;
  for (size_t x = 0; x < sample.width; ++x) {
    if (!std::isfinite(sample.cells[x])) {
      is_open = false;
      continue;
    }
    const double at =
        sample.width == 1 ? 0.5 : static_cast<double>(x * sample.width) / static_cast<double>(sample.width - 1);
    line += fmt::format("{}{:.1f} {:.1f}", is_open ? "L" : "M", at, height_of(sample.cells[x]));
    is_open = true;
    if (sample.low[x] != sample.high[x])
      area += fmt::format("M{:.1f} {:.1f}V{:.1f}", at, height_of(sample.low[x]), height_of(sample.high[x]));
    const bool is_alone = (x == 0 || !std::isfinite(sample.cells[x - 1])) &&
                          (x + 1 == sample.width || !std::isfinite(sample.cells[x + 1]));
    if (is_alone) line += "h.01";  // a point
  }
  std::string html = fmt::format(
      "<span class=\"plot\"><svg viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" role=\"img\" "
      "aria-label=\"{}\">",
      std::max<size_t>(sample.width, 1), kPlotHeight, escaped(title));
  if (least < 0 && greatest > 0)
    html += fmt::format("<path class=\"zero\" d=\"M0 {0:.1f}H{1}\"/>", height_of(0), sample.width);
  if (!area.empty()) html += fmt::format("<path class=\"area\" d=\"{}\"/>", area);
  html += fmt::format("<path class=\"line\" d=\"{}\"/></svg>", line);
  return html + fmt::format("<span class=\"top\">{}</span><span class=\"low\">{}</span></span>", number_text(greatest),
                            number_text(least));
}

std::string legend_html(const ColourScale& scale) {
  if (scale.map == ColourMap::named) {
    std::string html = "<span class=\"keys\">";
    const size_t count = std::min(scale.names.size(), kNamesInLegend);
    for (size_t i = 0; i < count; ++i) {
      const Flag& flag = scale.names[i];
      html += fmt::format("<span><i style=\"background:{}\"></i>{}</span>", hexadecimal(colour_of_name(i)),
                          escaped_part(flag.meaning.empty() ? number_text(flag.value) : flag.meaning, kNameBytes));
    }
    if (scale.names.size() > count) html += fmt::format("<span>and {} more</span>", scale.names.size() - count);
    return html + "</span>";
  }
  return fmt::format("<span class=\"scale\"><span>{}{}</span><i class=\"{}\"></i><span>{}{}</span></span>",
                     scale.is_cut ? "≤ " : "", number_text(scale.least), name_of(scale.map), scale.is_cut ? "≥ " : "",
                     number_text(scale.greatest));
}

}  // namespace

std::string picture_html(const Sample& sample, const ColourScale& scale, const std::string& title) {
  switch (sample.kind) {
    case PictureKind::none: return {};
    case PictureKind::line: return line_html(sample, title);
    case PictureKind::colours:
      return image_html(colour_png(sample.width, sample.height, sample.colours), sample, title);
    case PictureKind::heat: break;
  }
  if (std::ranges::none_of(sample.cells, [](double cell) { return std::isfinite(cell); })) return {};
  return image_html(heat_png(sample, scale), sample, title) + legend_html(scale);
}

std::string picture_css() {
  std::string css;
  for (const ColourMap map : {ColourMap::sequential, ColourMap::diverging, ColourMap::grey}) {
    css += fmt::format(".{}{{background:linear-gradient(90deg", name_of(map));
    constexpr int kStops = 9;
    for (int i = 0; i < kStops; ++i) css += "," + hexadecimal(colour_at(map, static_cast<double>(i) / (kStops - 1)));
    css += ")}\n";
  }
  return css;
}

}  // namespace codecfs::commands::overview
