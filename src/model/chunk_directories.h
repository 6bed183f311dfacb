#pragma once
// The directories that hold the chunks of an array, if the names of chunks contain slashes: c, c/0, c/0/1, ... Each has
// a number: c is 0, and a directory is followed by those below it. So the directories below one have consecutive
// numbers, as its chunks have, and all keep their numbers when only the first dimension grows.
//
//                      rank 1   rank 2          rank 3
//   directories        c        c c/0 c/1 ...   c c/0 c/0/0 c/0/1 ... c/1 c/1/0 ...
//   with chunks        c        c/0 c/1 ...     c/0/0 c/0/1 ...

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model/chunk_grid.h"

namespace codecfs {

class ChunkDirectories {
 public:
  explicit ChunkDirectories(const ChunkGrid& grid);

  /// 0 for a scalar: its chunk is in none. UINT64_MAX if they are too many to be numbered: number_of() is meaningless
  /// then.
  [[nodiscard]] uint64_t count() const { return below_.empty() ? 0 : below_.front(); }
  /// The coordinates in the name of a directory: {} for c, {1, 0} for c/1/0. number < count().
  [[nodiscard]] std::vector<uint64_t> prefix_of(uint64_t number) const;
  /// The inverse; `prefix` must be inside the grid and shorter than the rank.
  [[nodiscard]] uint64_t number_of(std::span<const uint64_t> prefix) const;
  /// The number of directories at and below one with a prefix of this length.
  [[nodiscard]] uint64_t count_below(size_t length) const { return below_[length]; }
  /// Whether the entries of a directory with a prefix of this length are chunks, not directories.
  [[nodiscard]] bool holds_chunks(size_t length) const { return length + 1 == below_.size(); }
  /// The number of entries of a directory with a prefix of this length.
  [[nodiscard]] uint64_t entries(size_t length) const { return cells_[length]; }

  struct Range {
    uint64_t first = 0;
    uint64_t end = 0;
  };
  /// The numbers of the chunks with coordinates that begin with a prefix.
  [[nodiscard]] Range chunks_below(std::span<const uint64_t> prefix) const;

 private:
  std::vector<uint64_t> cells_;
  std::vector<uint64_t> below_;   // by length of the prefix: directories at and below one
  std::vector<uint64_t> chunks_;  // by length of the prefix: chunks below one
};

/// The coordinate that is the name of a directory or chunk: canonical decimal digits.
std::optional<uint64_t> parse_coordinate(std::string_view name);

}  // namespace codecfs
