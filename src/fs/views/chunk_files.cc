#include "fs/views/chunk_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "fs/nodes/chunk_names.h"
#include "fs/nodes/clock.h"
#include "fs/nodes/staged_names.h"

namespace codecfs::fs {
Result<struct stat> ChunkFiles::attributes(const Node& node, const VariableViewPtr& view, uint64_t number) {
  CODECFS_ASSIGN(const Ino key, mount_.chunk_key(node, *view->facts, number));
  Result<struct stat> status = node.form().shows_shards(*view->facts)
                                   ? encoded_.shard_attributes(node, *view->facts, number)
                                   : chunk_attributes(node, view, number);
  // Absent is an answer, too.
  if (status || status.error().code == ENOENT) {
    CODECFS_TRY(mount_.still_means({key, node.object, number, view}));
  }
  return status;
}

Result<struct stat> ChunkFiles::chunk_attributes(const Node& node, const VariableViewPtr& view, uint64_t number) {
  const Variable& variable = *view->facts;
  if (mount_.tree.overlay.is_unlinked(node, number)) return not_there();
  if (node.form().is_encoded) return encoded_.attributes(node, view, number);
  CODECFS_ASSIGN(const Ino ino, mount_.tree.nodes.chunk_ino(node, number, variable.grid.count()));
  CODECFS_ASSIGN(const Ino key, mount_.tree.nodes.chunk_key(node, number, variable.grid.count()));
  if (const std::optional<uint64_t> size = mount_.chunks.write_back.size(key)) {
    struct stat status = inodes_.make(node, ino, S_IFREG, *size);
    status.st_blocks = std::max<blkcnt_t>(status.st_blocks, 1);
    return status;
  }
  // Whatever the source has in its place: a name that was removed is gone.
  if (coherence_.is_removed(node, number, key)) return not_there();
  CODECFS_ASSIGN(const ChunkInfo info, mount_.dataset.source().locate(node.object, number));
  if (!info.stored && !mount_.shows_absent(node, *view)) return not_there();

  uint64_t size = 0;
  if (variable.chunk_bytes) {
    size = *variable.chunk_bytes;
  } else if (!variable.unreadable) {
    // Only decoding tells the size.
    CODECFS_ASSIGN(const ChunkPtr chunk, mount_.chunks.decoder.decoded({key, node.object, number, view}));
    size = chunk->size();
  }
  struct stat status = inodes_.make(node, ino, S_IFREG, size);
  if (info.stored) {
    status.st_blocks = static_cast<blkcnt_t>(std::max<uint64_t>(1, blocks_of(info.stored_size)));
  } else {
    const bool zeros = std::ranges::all_of(variable.fill, [](std::byte byte) { return byte == std::byte{0}; });
    status.st_blocks = zeros ? 0 : 1;  // 0 would tell tar that there is nothing but zeros
  }
  return status;
}

std::optional<struct stat> ChunkFiles::known(const Node& node, const VariableViewPtr& view, uint64_t number) {
  const Variable& variable = *view->facts;
  const Result<Ino> ino = mount_.tree.nodes.chunk_ino(node, number, grid_of(node.view, variable).count());
  const Result<Ino> key = mount_.chunk_key(node, variable, number);
  if (!ino || !key || !mount_.still_means({*key, node.object, number, view})) return std::nullopt;
  mount_.kernel.shows_unfound = true;
  const uint64_t size = node.form().is_encoded ? 1 : variable.chunk_bytes.value_or(1);
  struct stat status = inodes_.make(node, *ino, S_IFREG, size);
  status.st_blocks = std::max<blkcnt_t>(status.st_blocks, 1);
  return status;
}

Result<std::optional<ChunkPlace>> ChunkFiles::named(const Place& directory, std::string_view name) {
  const Node& node = *directory.node;
  if (node.kind != NodeKind::variable) return std::optional<ChunkPlace>();
  CODECFS_ASSIGN(const VariableViewPtr view, mount_.dataset.variable(node.object));
  const Variable& facts = *view->facts;
  const std::optional<uint64_t> number = chunk_named(directory, facts, name).chunk;
  if (number) {
    CODECFS_ASSIGN(const Ino key, mount_.chunk_key(node, facts, *number));
    ChunkPlace chunk{key, node.object, *number, view};
    CODECFS_TRY(mount_.still_means(chunk));
    return chunk;
  }
  if (looks_like_chunk(name))
    return fail(EINVAL, "{}/{}: no chunk of this array, which has {} chunks{}", mount_.path_of(directory), name,
                fmt::join(grid_of(node.view, facts).cells(), " x "),
                has_directories(node.view, facts) ? " with names of Zarr v3 (c/0/1)" : "");
  return std::optional<ChunkPlace>();
}

Result<> ChunkFiles::put(const Node& node, const ChunkPlace& chunk, Bytes bytes, const Cancelled& cancelled) {
  if (node.form().shows_shards(*chunk.variable->facts)) {
    CODECFS_TRY(encoded_.put_shard(node, chunk, bytes));
    notifier_.shard_changed(node, chunk.number);
    return {};
  }
  if (node.form().is_encoded) {
    CODECFS_TRY(encoded_.put(node, chunk, bytes, cancelled));
  } else {
    CODECFS_TRY(filters_.apply_rules(chunk, cancelled));
    CODECFS_TRY(mount_.chunks.write_back.replace(chunk, bytes));
  }
  mount_.tree.overlay.forget_unlinked(node, chunk.number);
  CODECFS_ASSIGN(const Ino ino, mount_.tree.nodes.chunk_ino(node, chunk.number, chunk.variable->facts->grid.count()));
  mount_.tree.times.set(ino, {}, now());
  notifier_.chunk_changed(node, chunk.number);
  return {};
}

Result<> ChunkFiles::remove_shard(const Node& node, const ChunkPlace& shard) {
  CODECFS_TRY(encoded_.put_shard(node, shard, std::nullopt));
  notifier_.shard_changed(node, shard.number);
  return {};
}

}  // namespace codecfs::fs
