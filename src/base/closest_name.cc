#include "base/closest_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/ascii.h"

namespace codecfs {
namespace {

constexpr size_t kLongest = 64;  // longer words are not misspelled names

}  // namespace

// Optimal string alignment, with three rows of the table: distance of prefixes of i and j letters.
size_t edit_distance(std::string_view one, std::string_view other) {
  std::array<std::vector<size_t>, 3> rows;  // of i - 2, i - 1 and i
  for (auto& row : rows) row.resize(other.size() + 1);
  for (size_t j = 0; j <= other.size(); ++j) rows[2][j] = j;
  for (size_t i = 1; i <= one.size(); ++i) {
    std::ranges::rotate(rows, rows.begin() + 1);
    const std::vector<size_t>& two_above = rows[0];
    const std::vector<size_t>& above = rows[1];
    std::vector<size_t>& row = rows[2];
    row[0] = i;
    for (size_t j = 1; j <= other.size(); ++j) {
      const bool same = to_lower(one[i - 1]) == to_lower(other[j - 1]);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && to_lower(one[i - 1]) == to_lower(other[j - 2]) &&
                           to_lower(one[i - 2]) == to_lower(other[j - 1]);
      if (swapped) row[j] = std::min(row[j], two_above[j - 2] + 1);
    }
  }
  return rows[2][other.size()];
}

std::string_view closest_name(std::string_view word, std::span<const std::string_view> names) {
  constexpr size_t kShort = 4;
  if (word.size() > kLongest) return {};
  size_t least = std::min<size_t>(word.size() <= kShort ? 2 : 3, word.size());  // distances below this count
  std::string_view closest;
  for (const std::string_view name : names) {
    if (name.size() > kLongest) continue;
    if (const size_t distance = edit_distance(word, name); distance < least) {
      least = distance;
      closest = name;
    }
  }
  return closest;
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> names) {
  const std::string_view name = closest_name(word, names);
  return name.empty() ? std::string() : fmt::format("; did you mean {}?", name);
}

}  // namespace codecfs
