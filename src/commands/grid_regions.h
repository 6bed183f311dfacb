#pragma once
// Boxes of elements in arrays, and copying between them. Coordinates and extents are in elements.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/chunk_grid.h"

namespace codecfs::commands {

struct Region {
  std::vector<uint64_t> origin;
  std::vector<uint64_t> extent;  // of the same rank

  [[nodiscard]] uint64_t elements() const;
  /// As numpy selects it: "[6:8, 0:100]"; "[...]" for a scalar.
  [[nodiscard]] std::string text() const;
};

/// The elements of a chunk that lie in the array.
Region region_of_chunk(const ChunkGrid& grid, uint64_t number);

/// Calls `visit` with the number of each chunk of a grid of the same shape that overlaps a region, ascending, until it
/// returns an error.
Result<> for_each_chunk_in(const ChunkGrid& grid, const Region& region,
                           const std::function<Result<>(uint64_t number)>& visit);

/// A box of elements in memory, in C order: element `origin` of the array is the first.
struct Block {
  std::vector<uint64_t> origin;
  std::vector<uint64_t> extent;
};
/// Calls `run` for each run of consecutive elements of `region` that is contiguous in both blocks, with the indices of
/// its first element in each of them and its length. The region must lie in both.
void for_each_run(const Region& region, const Block& one, const Block& other,
                  const std::function<void(uint64_t in_one, uint64_t in_other, uint64_t count)>& run);

/// The elements that are in both; extents of 0 if there are none.
Region intersection(const Region& region, const Region& other);

}  // namespace codecfs::commands
