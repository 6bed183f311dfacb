#include "model/chunk_directories.h"

#include <algorithm>
#include <charconv>

namespace codecfs {

ChunkDirectories::ChunkDirectories(const ChunkGrid& grid) : cells_(grid.cells()) {
  const size_t rank = grid.rank();
  if (rank == 0) return;
  // No grid has a directory for each cell of an array that has no chunks: one extent may be 0, and the others huge.
  if (grid.count() == 0) std::ranges::fill(cells_, 0);
  below_.assign(rank, 1);
  chunks_.assign(rank, cells_.back());
  for (size_t d = rank - 1; d-- > 0;) {
    chunks_[d] = cells_[d] * chunks_[d + 1];
    uint64_t below = 0;
    const bool overflows =
        below_[d + 1] == UINT64_MAX || __builtin_mul_overflow(cells_[d], below_[d + 1], &below) || below == UINT64_MAX;
    below_[d] = overflows ? UINT64_MAX : below + 1;
  }
}

std::vector<uint64_t> ChunkDirectories::prefix_of(uint64_t number) const {
  std::vector<uint64_t> prefix;
  while (number > 0) {
    const uint64_t each = below_[prefix.size() + 1];
    prefix.push_back((number - 1) / each);
    number = (number - 1) % each;
  }
  return prefix;
}

uint64_t ChunkDirectories::number_of(std::span<const uint64_t> prefix) const {
  uint64_t number = 0;
  for (size_t d = 0; d < prefix.size(); ++d) number += 1 + prefix[d] * below_[d + 1];
  return number;
}

ChunkDirectories::Range ChunkDirectories::chunks_below(std::span<const uint64_t> prefix) const {
  uint64_t first = 0;
  for (size_t d = 0; d < prefix.size(); ++d) first += prefix[d] * (d + 1 < chunks_.size() ? chunks_[d + 1] : 1);
  return {first, first + (prefix.size() < chunks_.size() ? chunks_[prefix.size()] : 1)};
}

std::optional<uint64_t> parse_coordinate(std::string_view name) {
  if (name.empty() || (name[0] == '0' && name.size() > 1)) return std::nullopt;
  uint64_t value = 0;
  const char* const last = name.data() + name.size();
  const auto [end, error] = std::from_chars(name.data(), last, value);
  if (error != std::errc{} || end != last) return std::nullopt;
  return value;
}

}  // namespace codecfs
