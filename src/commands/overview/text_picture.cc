#include "commands/overview/text_picture.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include "base/human.h"
#include "base/terminal_text.h"
#include "commands/overview/variable_overview.h"

namespace codecfs::commands::overview {
namespace {

constexpr size_t kMaxColumns = 96;
constexpr size_t kRows = 24;      // of a heat map
constexpr size_t kLineRows = 12;  // of a line
constexpr size_t kLabels = 14;    // columns left of a line, for its numbers
constexpr std::string_view kShades = ".:-=+*#%@";
constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz";
constexpr size_t kBarColumns = 24;

std::string painted(std::optional<Colour> above, std::optional<Colour> below) {
  if (!above && !below) return " ";
  if (!above) return fmt::format("\x1b[38;5;{}m▄\x1b[0m", terminal_colour(*below));
  if (!below) return fmt::format("\x1b[38;5;{}m▀\x1b[0m", terminal_colour(*above));
  return fmt::format("\x1b[38;5;{};48;5;{}m▀\x1b[0m", terminal_colour(*above), terminal_colour(*below));
}

std::optional<Colour> colour_of_cell(const Sample& sample, const ColourScale& scale, size_t cell) {
  if (sample.kind == PictureKind::colours)
    return Colour{sample.colours[3 * cell], sample.colours[3 * cell + 1], sample.colours[3 * cell + 2]};
  const double number = sample.cells[cell];
  if (std::isnan(number)) return std::nullopt;
  constexpr size_t kSteps = 256;
  const size_t index = scale.index_of(number, kSteps);
  if (scale.map == ColourMap::named) {
    if (index == scale.names.size()) return std::nullopt;
    return colour_of_name(index);
  }
  return colour_at(scale.map, static_cast<double>(index) / (kSteps - 1));
}

char shade_of_cell(const Sample& sample, const ColourScale& scale, size_t cell) {
  if (sample.kind == PictureKind::colours) {
    const double light =
        0.299 * sample.colours[3 * cell] + 0.587 * sample.colours[3 * cell + 1] + 0.114 * sample.colours[3 * cell + 2];
    return kShades[std::min(static_cast<size_t>(light / 256 * static_cast<double>(kShades.size())),
                            kShades.size() - 1)];
  }
  const double number = sample.cells[cell];
  if (std::isnan(number)) return ' ';
  const size_t index = scale.index_of(number, kShades.size());
  if (scale.map == ColourMap::named) return index == scale.names.size() ? '?' : kLetters[index % kLetters.size()];
  return kShades[index];
}

std::string heat_text(const Sample& sample, const ColourScale& scale, bool colours) {
  std::string text;
  for (size_t y = 0; y < sample.height; y += colours ? 2 : 1) {
    for (size_t x = 0; x < sample.width; ++x) {
      const size_t cell = y * sample.width + x;
      if (!colours) {
        text += std::string(2, shade_of_cell(sample, scale, cell));
        continue;
      }
      std::optional<Colour> below;
      if (y + 1 < sample.height) below = colour_of_cell(sample, scale, cell + sample.width);
      text += painted(colour_of_cell(sample, scale, cell), below);
    }
    while (text.ends_with(' ')) text.pop_back();
    text += "\n";
  }
  return text;
}

std::string line_text(const Sample& sample, bool colours) {
  double least = HUGE_VAL;
  double greatest = -HUGE_VAL;
  for (size_t x = 0; x < sample.width; ++x) {
    if (std::isfinite(sample.low[x])) least = std::min(least, sample.low[x]);
    if (std::isfinite(sample.high[x])) greatest = std::max(greatest, sample.high[x]);
  }
  if (!(least <= greatest)) return {};
  const size_t rows = colours ? 2 * kLineRows : kLineRows;
  const auto row_of = [&](double number) {
    if (!(greatest > least)) return rows / 2;
    const double part = std::clamp((greatest - number) / (greatest - least), 0.0, 1.0);
    return std::min(static_cast<size_t>(part * static_cast<double>(rows)), rows - 1);
  };
  const auto is_set = [&](size_t row, size_t x) {
    return std::isfinite(sample.low[x]) && std::isfinite(sample.high[x]) && row >= row_of(sample.high[x]) &&
           row <= row_of(sample.low[x]);
  };
  std::string text;
  for (size_t row = 0; row < rows; row += colours ? 2 : 1) {
    const bool is_last = row + (colours ? 2 : 1) >= rows;
    text += fmt::format("{:>{}} {} ",
                        row == 0  ? number_text(greatest)
                        : is_last ? number_text(least)
                                  : "",
                        kLabels - 3, colours ? "│" : "|");
    for (size_t x = 0; x < sample.width; ++x) {
      if (!colours) {
        text += is_set(row, x) ? '*' : ' ';
        continue;
      }
      const bool above = is_set(row, x);
      const bool below = is_set(row + 1, x);
      text += above && below ? "█" : above ? "▀" : below ? "▄" : " ";
    }
    while (text.ends_with(' ')) text.pop_back();
    text += "\n";
  }
  return text;
}

std::string legend_text(const ColourScale& scale, bool colours) {
  std::string text;
  if (scale.map == ColourMap::named) {
    for (size_t i = 0; i < std::min(scale.names.size(), kLetters.size()); ++i) {
      const Flag& flag = scale.names[i];
      const std::string name = flag.meaning.empty() ? number_text(flag.value) : printable(flag.meaning);
      const std::string key =
          colours ? painted(colour_of_name(i), colour_of_name(i)) : std::string(1, kLetters[i % kLetters.size()]);
      text += fmt::format("{}{} {}", text.empty() ? "" : "  ", key, name);
    }
    return text + "\n";
  }
  std::string bar;
  for (size_t i = 0; i < (colours ? kBarColumns : kShades.size()); ++i) {
    const Colour colour = colour_at(scale.map, static_cast<double>(i) / (kBarColumns - 1));
    bar += colours ? painted(colour, colour) : std::string(1, kShades[i]);
  }
  return fmt::format("{}{} {} {}{}\n", scale.is_cut ? "≤ " : "", number_text(scale.least), bar,
                     scale.is_cut ? "≥ " : "", number_text(scale.greatest));
}

std::string statistics_text(const Sample& sample, const Conventions& says) {
  const Statistics& found = sample.statistics;
  std::string text;
  if (found.valid > 0)
    text = fmt::format("least {}, mean {}, greatest {}, ", number_text(found.least), number_text(found.mean),
                       number_text(found.greatest));
  text += says.fill && found.fill > 0 ? fmt::format("fill ({}) ", number_text(*says.fill)) : "fill ";
  text += share_text(found.fill, found.elements);
  if (!sample.has_all())
    text += fmt::format("; from a sample: {} of {}", human_count(sample.chunks), counted(sample.all_chunks, "chunk"));
  return text + "\n";
}

}  // namespace

unsigned terminal_colour(Colour colour) {
  constexpr std::array<int, 6> kLevels{0, 95, 135, 175, 215, 255};
  const auto distance = [&](int red, int green, int blue) {
    const auto square = [](int a, int b) { return (a - b) * (a - b); };
    return square(red, colour[0]) + square(green, colour[1]) + square(blue, colour[2]);
  };
  const auto nearest = [&](uint8_t part) {
    const auto found = std::ranges::min_element(kLevels, {}, [part](int level) { return std::abs(level - part); });
    return static_cast<size_t>(found - kLevels.begin());
  };
  const size_t red = nearest(colour[0]);
  const size_t green = nearest(colour[1]);
  const size_t blue = nearest(colour[2]);
  const int mean = (colour[0] + colour[1] + colour[2]) / 3;
  const int step = std::clamp((mean - 3) / 10, 0, 23);
  const int grey = 8 + 10 * step;
  if (distance(grey, grey, grey) < distance(kLevels[red], kLevels[green], kLevels[blue]))
    return static_cast<unsigned>(232 + step);
  return static_cast<unsigned>(16 + 36 * red + 6 * green + blue);
}

SampleRules rules_for(const PlotStyle& style) {
  SampleRules rules;
  const size_t columns = std::clamp<size_t>(style.columns, 20, kMaxColumns);
  rules.width = style.colours ? columns : columns / 2;
  rules.height = style.colours ? 2 * kRows : kRows;
  rules.line_width = columns - kLabels;
  return rules;
}

std::string text_picture(const Sample& sample, const ColourScale& scale, const PlotStyle& style) {
  if (sample.kind == PictureKind::none) return {};
  if (sample.kind == PictureKind::line) return line_text(sample, style.colours);
  const bool has_legend = sample.kind == PictureKind::heat;
  if (has_legend && std::ranges::all_of(sample.cells, [](double cell) { return std::isnan(cell); })) return {};
  return heat_text(sample, scale, style.colours) + (has_legend ? legend_text(scale, style.colours) : "");
}

std::string plot_text(Source& source, const InfoNode& node, const PlotStyle& style) {
  const VariableOverview look = look_at(source, node, rules_for(style));
  const VariableInfo& info = *node.variable;
  std::string text = "/" + printable(node.path);
  if (look.sample && !look.sample->shown.empty()) text += " " + look.sample->shown;
  if (!look.conventions.units.empty()) text += " in " + printable(look.conventions.units);
  if (look.conventions.is_packed) text += ", unpacked";
  text = cut_to(text, style.columns == 0 ? SIZE_MAX : style.columns) + "\n";
  std::string none;  // why there is no picture
  if (!info.missing.empty()) none = info.missing.front().reason;
  if (info.error) none = info.error->reason;
  if (look.sample && look.sample->none) none = *look.sample->none;
  if (!look.sample || !none.empty())
    return text + (none.empty() ? "elements of this type have no picture" : printable(none)) + "\n";
  const Sample& sample = *look.sample;
  for (const Error& error : sample.errors) text += "! " + printable(error.reason) + "\n";
  if (sample.statistics.elements == 0) return text;
  text += text_picture(sample, scale_for(*info.facts, look.conventions, sample), style);
  return text + statistics_text(sample, look.conventions);
}

}  // namespace codecfs::commands::overview
