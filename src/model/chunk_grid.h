#pragma once
// The regular grid that divides an array into chunks. A chunk is identified by its number, the C-order index of its
// coordinates in the grid. Its file name is its coordinates joined by '.' ("0" for a scalar).

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace codecfs {

class ChunkGrid {
 public:
  static constexpr size_t kMaxRank = 64;

  ChunkGrid() = default;
  /// Both in elements and of the same rank. Extents of `shape` may be 0, those of `chunks` may not: EINVAL. EOVERFLOW
  /// if the number of chunks exceeds 60 bits.
  static Result<ChunkGrid> make(std::vector<uint64_t> shape, std::vector<uint64_t> chunks);

  [[nodiscard]] size_t rank() const { return shape_.size(); }
  [[nodiscard]] const std::vector<uint64_t>& shape() const { return shape_; }
  [[nodiscard]] const std::vector<uint64_t>& chunks() const { return chunks_; }
  /// Chunks along each dimension.
  [[nodiscard]] const std::vector<uint64_t>& cells() const { return cells_; }
  /// Number of chunks: the product of cells(); 1 for a scalar, 0 if a dimension is 0.
  [[nodiscard]] uint64_t count() const { return count_; }
  /// Elements in one whole chunk. make() guarantees that this fits.
  [[nodiscard]] uint64_t elements_per_chunk() const { return elements_per_chunk_; }

  /// number < count(); `coordinates` must have rank() items, in chunks.
  void coordinates_of(uint64_t number, std::span<uint64_t> coordinates) const;
  [[nodiscard]] uint64_t number_of(std::span<const uint64_t> coordinates) const;

  [[nodiscard]] std::string name_of(uint64_t number, char separator = '.') const;
  /// The number of the chunk with this name; none if the name is not canonical ("00", "+1") or outside the grid.
  [[nodiscard]] std::optional<uint64_t> number_of(std::string_view name, char separator = '.') const;

 private:
  std::vector<uint64_t> shape_;
  std::vector<uint64_t> chunks_;
  std::vector<uint64_t> cells_;
  uint64_t count_ = 1;
  uint64_t elements_per_chunk_ = 1;
};

}  // namespace codecfs
