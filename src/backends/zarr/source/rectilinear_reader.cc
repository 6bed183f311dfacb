#include "backends/zarr/source/rectilinear_reader.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <utility>

#include "backends/zarr/source/chunk_listing.h"
#include "model/fill.h"

namespace codecfs::zarr {
namespace {

using Interval = RectilinearGrid::Interval;

/// The elements of a presented chunk that are in the array.
std::vector<Interval> elements_of(const ChunkGrid& grid, uint64_t number) {
  std::vector<uint64_t> at(grid.rank());
  grid.coordinates_of(number, at);
  std::vector<Interval> elements(grid.rank());
  for (size_t i = 0; i < grid.rank(); ++i) {
    const uint64_t begin = at[i] * grid.chunks()[i];
    elements[i] = {begin, std::min(begin + grid.chunks()[i], grid.shape()[i])};
  }
  return elements;
}

/// Calls `visit` with all coordinates in these intervals, none of which is empty.
template <class Visit>
Result<> for_each(const std::vector<Interval>& intervals, const Visit& visit) {
  std::vector<uint64_t> at;
  for (const Interval& interval : intervals) at.push_back(interval.begin);
  for (;;) {
    CODECFS_TRY(visit(std::as_const(at)));
    size_t axis = at.size();
    for (; axis > 0 && ++at[axis - 1] == intervals[axis - 1].end; --axis) at[axis - 1] = intervals[axis - 1].begin;
    if (axis == 0) return {};
  }
}

template <class Visit>
Result<> for_each_stored(const OpenArray& array, uint64_t number, const Visit& visit) {
  const RectilinearGrid& stored = *array.array.rectilinear;
  std::vector<Interval> cells = elements_of(array.array.variable.grid, number);
  for (size_t i = 0; i < cells.size(); ++i) cells[i] = stored.cells_of(i, cells[i]);
  return for_each(cells, [&](const std::vector<uint64_t>& at) {
    return visit(at, join_key(array.key, array.array.keys.name_of(stored.cells(), stored.cells().number_of(at))));
  });
}

/// The array as if a stored chunk were all of it.
Result<OpenArray> array_of_piece(const OpenArray& array, const std::vector<uint64_t>& shape) {
  OpenArray piece;
  Variable& facts = piece.array.variable;
  facts.type = array.array.variable.type;
  facts.filters = array.array.variable.filters;
  facts.zarr3_type = array.array.variable.zarr3_type;
  facts.stored_order = array.array.variable.stored_order;
  CODECFS_ASSIGN(facts.grid, ChunkGrid::make(shape, shape));
  CODECFS_TRY(measure_chunks(facts, "zarr.json"));
  if (facts.unreadable) return std::unexpected(*facts.unreadable);
  CODECFS_ASSIGN(piece.pipeline, filters::Pipeline::make(facts.filters, filters::shape_of_stored_chunk(facts)));
  return piece;
}

/// An array in memory, in C order, whose first element is at `begin` of the whole array.
struct Box {
  std::vector<uint64_t> begin;
  std::vector<uint64_t> shape;
  [[nodiscard]] uint64_t offset_of(std::span<const uint64_t> at) const {
    uint64_t offset = 0;
    for (size_t i = 0; i < shape.size(); ++i) offset = offset * shape[i] + (at[i] - begin[i]);
    return offset;
  }
};

/// Copies the elements in `region` row by row.
void copy_region(const std::vector<Interval>& region, const Box& from, Bytes source, const Box& to, MutableBytes target,
                 uint64_t element) {
  std::vector<Interval> rows = region;
  uint64_t count = 1;
  if (!rows.empty()) {
    count = rows.back().end - rows.back().begin;
    rows.back().end = rows.back().begin + 1;
  }
  (void)for_each(rows, [&](const std::vector<uint64_t>& at) -> Result<> {
    std::memcpy(target.data() + to.offset_of(at) * element, source.data() + from.offset_of(at) * element,
                count * element);
    return {};
  });
}

}  // namespace

Result<ChunkInfo> locate_rectilinear(const Store& store, const OpenArray& array, uint64_t number) {
  ChunkInfo info;
  CODECFS_TRY(for_each_stored(array, number, [&](const auto&, const std::string& key) -> Result<> {
    CODECFS_ASSIGN(const auto stored, store.locate(key));
    if (!stored) return {};
    info.stored = true;
    info.stored_size += stored->bytes;
    return {};
  }));
  return info;
}

Result<std::vector<uint64_t>> stored_rectilinear(const Store& store, const OpenArray& array) {
  const RectilinearGrid& stored = *array.array.rectilinear;
  const ChunkGrid& grid = array.array.variable.grid;
  CODECFS_ASSIGN(const auto files, list_chunks(store, array.key, stored.cells(), array.array.keys));
  std::vector<uint64_t> numbers;
  std::vector<uint64_t> at(grid.rank());
  std::vector<Interval> chunks(grid.rank());
  for (const uint64_t file : files) {
    stored.cells().coordinates_of(file, at);
    for (size_t i = 0; i < at.size(); ++i) {
      const Interval elements = stored.elements(i, at[i]);
      const uint64_t end = std::min(elements.end, grid.shape()[i]);
      chunks[i] = {elements.begin / grid.chunks()[i], (end - 1) / grid.chunks()[i] + 1};
    }
    CODECFS_TRY(for_each(chunks, [&](const std::vector<uint64_t>& chunk) -> Result<> {
      numbers.push_back(grid.number_of(chunk));
      return {};
    }));
  }
  std::ranges::sort(numbers);
  numbers.erase(std::ranges::unique(numbers).begin(), numbers.end());
  return numbers;
}

Result<std::vector<RectilinearPiece>> read_rectilinear(const Store& store, const OpenArray& array, uint64_t number) {
  std::vector<RectilinearPiece> pieces;
  CODECFS_TRY(for_each_stored(array, number, [&](const auto& at, const std::string& key) -> Result<> {
    CODECFS_ASSIGN(auto bytes, store.read(key, array.max_stored));
    if (bytes) pieces.push_back({at, key, *std::move(bytes)});
    return {};
  }));
  return pieces;
}

Result<Buffer> join_rectilinear(const OpenArray& array, uint64_t number, std::vector<RectilinearPiece> pieces) {
  const Variable& facts = array.array.variable;
  const RectilinearGrid& stored = *array.array.rectilinear;
  CODECFS_ASSIGN(Buffer joined, Buffer::allocate(*facts.chunk_bytes));
  repeat_element(facts.fill, joined.mutable_bytes());
  const std::vector<Interval> elements = elements_of(facts.grid, number);
  Box whole{.begin = {}, .shape = facts.grid.chunks()};
  for (const Interval& interval : elements) whole.begin.push_back(interval.begin);

  std::map<std::vector<uint64_t>, OpenArray> arrays;  // by the shape of the stored chunk
  for (RectilinearPiece& piece : pieces) {
    Box box;
    std::vector<Interval> common = elements;
    for (size_t i = 0; i < common.size(); ++i) {
      const Interval interval = stored.elements(i, piece.coordinates[i]);
      box.begin.push_back(interval.begin);
      box.shape.push_back(interval.end - interval.begin);
      common[i] = {std::max(common[i].begin, interval.begin), std::min(common[i].end, interval.end)};
    }
    auto known = arrays.find(box.shape);
    if (known == arrays.end()) {
      auto made = array_of_piece(array, box.shape);
      if (!made) return in_file(piece.key, made.error());
      known = arrays.emplace(box.shape, *std::move(made)).first;
    }
    CODECFS_ASSIGN(const Buffer decoded, decode_chunk(known->second, piece.key, std::move(piece.bytes)));
    copy_region(common, box, decoded.bytes(), whole, joined.mutable_bytes(), facts.type.size);
  }
  return joined;
}

}  // namespace codecfs::zarr
