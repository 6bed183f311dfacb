// Any text as a zarr.json, and any bytes behind a zero byte as the index of a shard of that array: a variable with
// consistent numbers and entries inside of the shard, or an error with a reason. What is read can be changed and read
// again.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/zarr/metadata/zarr3_metadata.h"
#include "backends/zarr/metadata/zarr3_write.h"
#include "model/limits.h"
#include "require.h"

namespace {

using namespace codecfs;

void check_error(const Error& error) { require(error.code != 0 && !error.reason.empty(), "an error has a reason"); }

/// The first and the last presented chunk along each axis are put together of some stored chunks, which cover them.
void check_grid(const zarr::RectilinearGrid& stored, const ChunkGrid& grid) {
  require(!stored.cells().count() == !grid.count(), "there are stored chunks where there are presented ones");
  if (grid.count() == 0) return;
  uint64_t joined = 1;
  for (size_t axis = 0; axis < grid.rank(); ++axis) {
    uint64_t most = 1;
    for (const uint64_t chunk : {uint64_t{0}, grid.cells()[axis] - 1}) {
      const uint64_t begin = chunk * grid.chunks()[axis];
      const uint64_t end = std::min(begin + grid.chunks()[axis], grid.shape()[axis]);
      const auto cells = stored.cells_of(axis, {begin, end});
      require(cells.begin < cells.end && cells.end <= stored.cells().cells()[axis], "a chunk has stored parts");
      require(stored.elements(axis, cells.begin).begin <= begin && stored.elements(axis, cells.end - 1).end >= end,
              "which cover it");
      most = std::max(most, cells.end - cells.begin);
    }
    joined *= most;
    require(joined <= zarr::RectilinearGrid::kMaxOverlaps, "their number is bounded");
  }
}

void check(const zarr::Array& array) {
  const Variable& variable = array.variable;
  const ChunkGrid& grid = variable.grid;
  require(grid.shape().size() == grid.rank() && grid.chunks().size() == grid.rank(), "a grid has one rank");
  require(!variable.dimensions || variable.dimensions->size() == grid.rank(), "each dimension has a name");
  require(variable.stored_order.empty() || variable.stored_order.size() == grid.rank(), "each axis has a place");
  if (variable.chunk_bytes)
    require(*variable.chunk_bytes == grid.elements_per_chunk() * variable.type.size, "a chunk is its elements");
  if (variable.unreadable) return check_error(*variable.unreadable);
  if (array.rectilinear) check_grid(*array.rectilinear, grid);
  require(!variable.chunk_bytes || *variable.chunk_bytes <= max_chunk_bytes(), "a chunk that is read is bounded");
  require(variable.type.kind == TypeKind::object || variable.fill.size() == variable.type.size, "a fill is an element");
}

void check_index(const zarr::ShardLevel& level, Bytes bytes) {
  const uint64_t size = bytes.size() * 2;
  const auto entries = zarr::decode_shard_index(level, bytes, size);
  if (!entries) return check_error(entries.error());
  require(entries->size() == level.count, "each chunk has an entry");
  for (const zarr::ShardEntry& entry : *entries)
    require(!entry.is_stored() || (entry.offset <= size && entry.size <= size - entry.offset),
            "a chunk is in its shard");
  const auto again = zarr::encode_shard_index(level, *entries);
  require(again && zarr::decode_shard_index(level, again->bytes(), size).value() == *entries, "an index comes back");
}

void check_changes(std::string_view text, const zarr::Array& array) {
  const std::vector<uint64_t> shape(array.variable.grid.rank(), 7);
  if (const auto changed = zarr::with_zarr3_shape(text, shape)) {
    if (const auto read = zarr::parse_zarr3_array(*changed))
      require(read->variable.grid.shape() == shape, "a shape is kept");
  } else {
    check_error(changed.error());
  }
  if (const auto changed = zarr::with_zarr3_chain(text, array, {})) {
    const auto read = zarr::parse_zarr3_array(*changed);
    require(read && read->variable.filters.empty(), "no filters are left");
  } else {
    check_error(changed.error());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(all.find('\0'), all.size());
  const std::string_view text = all.substr(0, end);
  if (const auto array = zarr::parse_zarr3_array(text)) {
    check(*array);
    const std::string_view rest = all.substr(std::min(end + 1, all.size()));
    if (array->shards)
      for (const zarr::ShardLevel& level : array->shards->levels)
        if (level.count <= 1 << 16) check_index(level, std::as_bytes(std::span(rest)));
    check_changes(text, *array);
  } else {
    check_error(array.error());
  }
  if (const auto group = zarr::parse_zarr3_group(text); !group) check_error(group.error());
  if (const auto type = zarr::zarr3_node_type(text); !type) check_error(type.error());
  return 0;
}
