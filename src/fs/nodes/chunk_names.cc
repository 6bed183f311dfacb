#include "fs/nodes/chunk_names.h"

#include <algorithm>
#include <span>
#include <vector>

#include "model/chunk_keys.h"

namespace codecfs::fs {
namespace {

constexpr std::string_view kTop = "c";

std::vector<uint64_t> coordinates_of(const ChunkGrid& grid, uint64_t number) {
  std::vector<uint64_t> coordinates(grid.rank());
  grid.coordinates_of(number, coordinates);
  return coordinates;
}

}  // namespace

uint64_t shard_of_chunk(const Variable& variable, uint64_t chunk) {
  const ChunkGrid& shards = variable.shards->grid;
  std::vector<uint64_t> at = coordinates_of(variable.grid, chunk);
  for (size_t axis = 0; axis < at.size(); ++axis) at[axis] /= shards.chunks()[axis] / variable.grid.chunks()[axis];
  return shards.number_of(at);
}

uint64_t file_of_chunk(View view, const Variable& variable, uint64_t chunk) {
  return form_of(view).shows_shards(variable) ? shard_of_chunk(variable, chunk) : chunk;
}

std::vector<ChunkRange> chunks_of_shard(const Variable& variable, uint64_t shard) {
  const ChunkGrid& grid = variable.grid;
  const size_t rank = grid.rank();
  if (rank == 0) return {{0, 1}};
  std::vector<uint64_t> first = coordinates_of(variable.shards->grid, shard);
  std::vector<uint64_t> end(rank);
  for (size_t axis = 0; axis < rank; ++axis) {
    const uint64_t each = variable.shards->grid.chunks()[axis] / grid.chunks()[axis];
    first[axis] *= each;
    end[axis] = std::min(first[axis] + each, grid.cells()[axis]);
  }
  std::vector<ChunkRange> ranges;
  for (std::vector<uint64_t> at = first;;) {
    ranges.push_back({grid.number_of(at), end[rank - 1] - first[rank - 1]});
    size_t axis = rank - 1;
    for (; axis > 0 && ++at[axis - 1] == end[axis - 1]; --axis) at[axis - 1] = first[axis - 1];
    if (axis == 0) return ranges;
  }
}

bool has_directories(View view, const Variable& variable) {
  return variable.grid.rank() > 0 && form_of(view).format().keys_of(variable).separator == '/';
}

NamedChunk chunk_named(const Place& directory, const Variable& variable, std::string_view name) {
  const View view = directory.node->view;
  const ChunkGrid& grid = grid_of(view, variable);
  const bool is_top = directory.file != FileKind::chunk_directory;
  if (is_top && !has_directories(view, variable))
    return {form_of(view).format().keys_of(variable).number_of(grid, name), {}};
  if (is_top && name != kTop) return {};
  if (is_top) return {{}, 0};
  const std::optional<uint64_t> coordinate = parse_coordinate(name);
  const ChunkDirectories directories(grid);
  if (!coordinate || directory.chunk >= directories.count()) return {};
  std::vector<uint64_t> prefix = directories.prefix_of(directory.chunk);
  const size_t length = prefix.size();
  if (*coordinate >= directories.entries(length)) return {};
  prefix.push_back(*coordinate);
  if (directories.holds_chunks(length)) return {grid.number_of(prefix), {}};
  return {{}, directories.number_of(prefix)};
}

Result<ChunkName> name_of_chunk(Nodes& nodes, const Node& node, const Variable& variable, uint64_t number) {
  if (!has_directories(node.view, variable)) return ChunkName{node.ino(), path_of_chunk(node.view, variable, number)};
  const ChunkGrid& grid = grid_of(node.view, variable);
  const ChunkDirectories directories(grid);
  const std::vector<uint64_t> coordinates = coordinates_of(grid, number);
  const auto prefix = std::span(coordinates).first(coordinates.size() - 1);
  CODECFS_ASSIGN(const Ino ino, nodes.directory_ino(node, directories.number_of(prefix), directories.count()));
  return ChunkName{ino, fmt::format("{}", coordinates.back())};
}

Result<Ino> parent_of_directory(Nodes& nodes, const Node& variable, const ChunkGrid& grid, uint64_t number) {
  if (number == 0) return variable.ino();
  const ChunkDirectories directories(grid);
  std::vector<uint64_t> prefix = directories.prefix_of(number);
  prefix.pop_back();
  return nodes.directory_ino(variable, directories.number_of(prefix), directories.count());
}

std::string path_of_chunk(View view, const Variable& variable, uint64_t number) {
  return form_of(view).format().keys_of(variable).name_of(grid_of(view, variable), number);
}

std::string path_of_directory(const ChunkGrid& grid, uint64_t number) {
  std::string path(kTop);
  for (const uint64_t coordinate : ChunkDirectories(grid).prefix_of(number)) path += fmt::format("/{}", coordinate);
  return path;
}

}  // namespace codecfs::fs
