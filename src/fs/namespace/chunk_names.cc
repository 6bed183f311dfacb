#include "fs/namespace/chunk_names.h"

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

NamedChunk chunk_named(const Place& directory, const ChunkGrid& grid, std::string_view name) {
  if (!is_zarr3(directory.node->view)) return {grid.number_of(name), {}};
  const bool is_top = directory.file != FileKind::chunk_directory;
  if (is_top && name != kTop) return {};
  if (is_top && grid.rank() == 0) return {0, {}};
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

Result<ChunkName> name_of_chunk(Nodes& nodes, const Node& variable, const ChunkGrid& grid, uint64_t number) {
  if (!is_zarr3(variable.view)) return ChunkName{variable.ino(), grid.name_of(number)};
  if (grid.rank() == 0) return ChunkName{variable.ino(), std::string(kTop)};
  const ChunkDirectories directories(grid);
  const std::vector<uint64_t> coordinates = coordinates_of(grid, number);
  const auto prefix = std::span(coordinates).first(coordinates.size() - 1);
  CODECFS_ASSIGN(const Ino ino, nodes.directory_ino(variable, directories.number_of(prefix), directories.count()));
  return ChunkName{ino, fmt::format("{}", coordinates.back())};
}

Result<Ino> parent_of_directory(Nodes& nodes, const Node& variable, const ChunkGrid& grid, uint64_t number) {
  if (number == 0) return variable.ino();
  const ChunkDirectories directories(grid);
  std::vector<uint64_t> prefix = directories.prefix_of(number);
  prefix.pop_back();
  return nodes.directory_ino(variable, directories.number_of(prefix), directories.count());
}

std::string path_of_chunk(View view, const ChunkGrid& grid, uint64_t number) {
  return is_zarr3(view) ? ChunkKeys().name_of(grid, number) : grid.name_of(number);
}

std::string path_of_directory(const ChunkGrid& grid, uint64_t number) {
  std::string path(kTop);
  for (const uint64_t coordinate : ChunkDirectories(grid).prefix_of(number)) path += fmt::format("/{}", coordinate);
  return path;
}

}  // namespace codecfs::fs
