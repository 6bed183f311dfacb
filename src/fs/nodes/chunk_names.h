#pragma once
// The names of chunks in each view: 0.1 in the variable's directory, or c/0/1 in views of Zarr v3, where directories
// hold the chunks. In the view encoded3 the files of a sharded variable are its shards, which have numbers of their
// own: the number in a Place or ChunkPlace is that of a file of its view. Where a source of Zarr v3 has names without
// slashes, they stay: c.0.1, 0.1. Directories of chunks exist by name wherever they are inside the grid, so that what
// creates them first (mkdir -p) finds them, but not in a fresh variable (DirectoryState) before they are made. A
// directory is listed while it holds a chunk that is shown.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fs/nodes/nodes.h"
#include "model/chunk_directories.h"
#include "model/variable.h"

namespace codecfs::fs {

/// What a name denotes: a chunk, a directory of chunks, or neither.
struct NamedChunk {
  std::optional<uint64_t> chunk;
  std::optional<uint64_t> directory;
};

/// The grid of the chunk files.
inline const ChunkGrid& grid_of(View view, const Variable& variable) {
  return form_of(view).shows_shards(variable) ? variable.shards->grid : variable.grid;
}
/// The file of a view that holds a chunk of the variable.
uint64_t file_of_chunk(View view, const Variable& variable, uint64_t chunk);
/// The shard that holds a chunk of a variable with shards.
uint64_t shard_of_chunk(const Variable& variable, uint64_t chunk);
/// The chunks of the variable that are in a shard, ascending, as ranges of consecutive numbers.
struct ChunkRange {
  uint64_t first = 0;
  uint64_t count = 0;
};
std::vector<ChunkRange> chunks_of_shard(const Variable& variable, uint64_t shard);

/// Whether directories hold the chunks.
bool has_directories(View view, const Variable& variable);

/// `directory`: of a variable, or of chunks.
NamedChunk chunk_named(const Place& directory, const Variable& variable, std::string_view name);

/// The directory of a chunk's file in the view of a variable, and its name there. ENFILE.
struct ChunkName {
  Ino directory = 0;
  std::string name;
};
Result<ChunkName> name_of_chunk(Nodes& nodes, const Node& node, const Variable& variable, uint64_t number);
/// The directory that holds a directory of chunks.
Result<Ino> parent_of_directory(Nodes& nodes, const Node& variable, const ChunkGrid& grid, uint64_t number);

/// The path of a chunk from the directory of its variable.
std::string path_of_chunk(View view, const Variable& variable, uint64_t number);
/// The path of a directory of chunks from the directory of its variable.
std::string path_of_directory(const ChunkGrid& grid, uint64_t number);

}  // namespace codecfs::fs
