#include "backends/zarr/metadata/rectilinear_grid.h"

#include <algorithm>
#include <utility>

#include "model/json.h"

namespace codecfs::zarr {
namespace {

bool is_length(const Json& value) { return value.is_number_unsigned() && value != 0U; }

/// A length, or [length, repetitions].
Result<std::pair<uint64_t, uint64_t>> parse_run(const Json& item) {
  if (is_length(item)) return std::pair{item.get<uint64_t>(), uint64_t{1}};
  if (item.is_array() && item.size() == 2 && is_length(item[0]) && is_length(item[1]))
    return std::pair{item[0].get<uint64_t>(), item[1].get<uint64_t>()};
  return fail(EINVAL, "\"chunk_shapes\": {} is neither a length nor a repeated one", print_json(item));
}

}  // namespace

Result<RectilinearGrid::Axis> RectilinearGrid::parse_axis(const Json& edges, uint64_t extent, size_t& room) {
  Axis axis;
  if (is_length(edges)) {
    axis.length = edges.get<uint64_t>();
    return axis;
  }
  if (!edges.is_array()) return fail(EINVAL, "\"chunk_shapes\": {} is no list of lengths", print_json(edges));
  uint64_t end = 0;
  for (const Json& item : edges) {
    CODECFS_ASSIGN(const auto run, parse_run(item));
    // Chunks beyond the array have no elements.
    for (uint64_t i = 0; i < run.second && end < extent; ++i) {
      if (room == 0) return fail(EOPNOTSUPP, "\"chunk_shapes\" has more than {} lengths", kMaxEdges);
      --room;
      if (__builtin_add_overflow(end, run.first, &end)) return fail(EOVERFLOW, "\"chunk_shapes\" is too long");
      axis.ends.push_back(end);
    }
  }
  if (end < extent) return fail(EINVAL, "\"chunk_shapes\" has {} elements where \"shape\" has {}", end, extent);
  return axis;
}

Result<RectilinearGrid> RectilinearGrid::parse(const Json& chunk_shapes, const std::vector<uint64_t>& shape) {
  if (!chunk_shapes.is_array() || chunk_shapes.size() != shape.size())
    return fail(EINVAL, "\"chunk_shapes\" is no list of one item for each dimension");
  RectilinearGrid grid;
  std::vector<uint64_t> counts;
  size_t room = kMaxEdges;
  for (size_t i = 0; i < shape.size(); ++i) {
    CODECFS_ASSIGN(Axis axis, parse_axis(chunk_shapes[i], shape[i], room));
    const uint64_t last = axis.length != 0 && shape[i] % axis.length != 0 ? 1 : 0;
    counts.push_back(axis.length != 0 ? shape[i] / axis.length + last : axis.ends.size());
    grid.axes_.push_back(std::move(axis));
  }
  CODECFS_ASSIGN(grid.cells_, ChunkGrid::make(counts, std::vector<uint64_t>(counts.size(), 1)));
  CODECFS_TRY(grid.check_overlaps(shape));
  return grid;
}

Result<> RectilinearGrid::check_overlaps(const std::vector<uint64_t>& shape) const {
  const std::vector<uint64_t> presented = longest();
  uint64_t stored_in_one = 1;  // stored chunks in a presented one, at most
  uint64_t parts_of_one = 1;   // and the other way round: one or two along each axis
  for (size_t i = 0; i < axes_.size(); ++i) {
    const uint64_t length = presented[i];
    const std::vector<uint64_t>& ends = axes_[i].ends;
    uint64_t most = 1;
    for (uint64_t begin = 0; !ends.empty() && begin < shape[i];) {
      const uint64_t end = shape[i] - begin < length ? shape[i] : begin + length;
      const Interval cells = cells_of(i, {begin, end});
      most = std::max(most, cells.end - cells.begin);
      begin = end;
    }
    uint64_t begin = 0;
    bool is_cut = false;
    for (const uint64_t end : ends) is_cut |= std::exchange(begin, end) / length != (end - 1) / length;
    if (is_cut) parts_of_one *= 2;
    if (__builtin_mul_overflow(stored_in_one, most, &stored_in_one) || stored_in_one > kMaxOverlaps ||
        parts_of_one > kMaxOverlaps)
      return fail(EOPNOTSUPP, "\"chunk_shapes\": the lengths of the chunks differ too much, or in too many dimensions");
  }
  return {};
}

std::vector<uint64_t> RectilinearGrid::longest() const {
  std::vector<uint64_t> lengths;
  for (const Axis& axis : axes_) {
    uint64_t longest = std::max<uint64_t>(axis.length, 1);
    uint64_t begin = 0;
    for (const uint64_t end : axis.ends) longest = std::max(longest, end - std::exchange(begin, end));
    lengths.push_back(longest);
  }
  return lengths;
}

uint64_t RectilinearGrid::memory() const {
  uint64_t bytes = 0;
  for (const Axis& axis : axes_) bytes += sizeof(Axis) + axis.ends.capacity() * sizeof(uint64_t);
  return bytes;
}

RectilinearGrid::Interval RectilinearGrid::elements(size_t axis, uint64_t cell) const {
  const Axis& at = axes_[axis];
  if (at.length != 0) {
    const uint64_t begin = cell * at.length;
    return {begin, begin + std::min(at.length, UINT64_MAX - begin)};
  }
  return {cell == 0 ? 0 : at.ends[cell - 1], at.ends[cell]};
}

RectilinearGrid::Interval RectilinearGrid::cells_of(size_t axis, Interval interval) const {
  const Axis& at = axes_[axis];
  const uint64_t count = cells_.cells()[axis];
  if (at.length != 0) return {interval.begin / at.length, std::min(count, (interval.end - 1) / at.length + 1)};
  const auto cell_with = [&](uint64_t element) {
    return static_cast<uint64_t>(std::ranges::upper_bound(at.ends, element) - at.ends.begin());
  };
  return {cell_with(interval.begin), std::min(count, cell_with(interval.end - 1) + 1)};
}

}  // namespace codecfs::zarr
