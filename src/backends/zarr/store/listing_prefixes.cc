#include "backends/zarr/store/listing_prefixes.h"

#include <algorithm>
#include <queue>
#include <span>

namespace codecfs::zarr {
namespace {

/// Some keys: those that begin with `prefix`, which ends with the first digits of the coordinate of `axis`.
struct Part {
  std::string prefix;
  size_t axis = 0;
  bool has_digits = false;
  uint64_t digits = 0;  // as a number
  double keys = 0;      // of a full grid

  bool operator<(const Part& other) const { return keys < other.keys; }
};

/// How many numbers below `cells` begin with these digits.
double count_with(uint64_t digits, uint64_t cells) {
  if (digits == 0) return cells > 0 ? 1 : 0;
  double count = 0;
  for (uint64_t first = digits, width = 1; first < cells; first *= 10, width *= 10) {
    count += static_cast<double>(std::min(width, cells - first));
    if (first > cells / 10) break;
  }
  return count;
}

class Division {
 public:
  Division(const ChunkGrid& grid, char separator) : cells_(grid.cells()), separator_(separator) {}

  [[nodiscard]] bool is_divisible(const Part& part) const { return !part.has_digits || part.axis + 1 < cells_.size(); }

  [[nodiscard]] std::vector<Part> parts_of(const Part& whole) const {
    std::vector<Part> parts;
    const double later = keys_after(whole.axis);
    if (whole.has_digits) {
      Part exact{whole.prefix + separator_, whole.axis + 1, false, 0, later};
      parts.push_back(std::move(exact));
      if (whole.digits == 0) return parts;
    }
    for (uint64_t digit = 0; digit < 10; ++digit) {
      const uint64_t digits = whole.digits * 10 + digit;
      const double count = count_with(digits, cells_[whole.axis]);
      if (count == 0) break;
      parts.push_back({whole.prefix + static_cast<char>('0' + digit), whole.axis, true, digits, count * later});
    }
    return parts;
  }

 private:
  /// In all axes behind this one.
  [[nodiscard]] double keys_after(size_t axis) const {
    double keys = 1;
    for (const uint64_t cells : cells_.subspan(axis + 1)) keys *= static_cast<double>(cells);
    return keys;
  }

  const std::span<const uint64_t> cells_;
  const char separator_;
};

}  // namespace

std::vector<std::string> listing_prefixes(const ChunkGrid& grid, const ChunkKeys& keys, uint64_t each, size_t most) {
  if (grid.rank() == 0 || grid.count() == 0) return {};
  const Division division(grid, keys.separator);
  std::priority_queue<Part> parts;
  parts.push(
      {keys.has_prefix ? std::string("c") + keys.separator : "", 0, false, 0, static_cast<double>(grid.count())});
  std::vector<std::string> prefixes;  // that are not divided further
  while (!parts.empty()) {
    const Part largest = parts.top();
    parts.pop();
    const bool is_enough = largest.keys <= static_cast<double>(each);
    std::vector<Part> divided;
    if (!is_enough && division.is_divisible(largest)) divided = division.parts_of(largest);
    if (divided.empty() || prefixes.size() + parts.size() + divided.size() > most) {
      prefixes.push_back(largest.prefix);
    } else {
      for (Part& part : divided) parts.push(std::move(part));
    }
  }
  std::ranges::sort(prefixes);
  if (prefixes.size() < 2) return {};
  return prefixes;
}

}  // namespace codecfs::zarr
