#pragma once
// The chunk grid "rectilinear" of Zarr v3: the chunks along an axis have lengths of their own. It is presented as a
// regular grid, whose chunks are put together of the stored chunks that they overlap. Pure functions: no I/O. Source:
// zarr-extensions, "chunk-grids/rectilinear".

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/chunk_grid.h"
#include "model/json_value.h"

namespace codecfs::zarr {

class RectilinearGrid {
 public:
  /// A grid with a longer list, of all axes together and with repetitions, is refused.
  static constexpr size_t kMaxEdges = size_t{1} << 17;
  /// A grid with more stored chunks in a presented one, or the other way round, is refused.
  static constexpr uint64_t kMaxOverlaps = uint64_t{1} << 16;

  /// `chunk_shapes`: of the grid's configuration; `shape`: of the array. EINVAL if they are malformed or do not cover
  /// the array; EOVERFLOW; EOPNOTSUPP for what is refused.
  static Result<RectilinearGrid> parse(const Json& chunk_shapes, const std::vector<uint64_t>& shape);

  /// The stored chunks as a grid, each as one element: their coordinates, numbers and names.
  [[nodiscard]] const ChunkGrid& cells() const { return cells_; }
  /// The shape of the presented chunks: the largest length along each axis.
  [[nodiscard]] std::vector<uint64_t> longest() const;

  /// Bytes, about.
  [[nodiscard]] uint64_t memory() const;

  struct Interval {
    uint64_t begin = 0;
    uint64_t end = 0;  // exclusive
  };
  /// The elements of a stored chunk along an axis; those of the last one may go beyond the array.
  [[nodiscard]] Interval elements(size_t axis, uint64_t cell) const;
  /// The stored chunks along an axis that have elements of `interval`, which must begin within the array.
  [[nodiscard]] Interval cells_of(size_t axis, Interval interval) const;

 private:
  struct Axis {
    uint64_t length = 0;         // of each chunk, if all have the same
    std::vector<uint64_t> ends;  // else where each ends, ascending
  };
  static Result<Axis> parse_axis(const Json& edges, uint64_t extent, size_t& room);
  [[nodiscard]] Result<> check_overlaps(const std::vector<uint64_t>& shape) const;

  std::vector<Axis> axes_;
  ChunkGrid cells_;
};

}  // namespace codecfs::zarr
