// The shards that the view encoded3 shows. See encoded_view.cc for the rest.

#include <algorithm>

#include "fs/nodes/chunk_names.h"
#include "fs/nodes/clock.h"
#include "fs/views/encoded_view.h"

namespace codecfs::fs {
namespace {

bool have_same_shards(const Variable& one, const Variable& other) {
  return other.shards && one.grid.shape() == other.grid.shape() && one.grid.chunks() == other.grid.chunks() &&
         one.shards->grid.chunks() == other.shards->grid.chunks();
}

}  // namespace

Result<struct stat> EncodedView::shard_attributes(const Node& node, const Variable& variable, uint64_t shard) {
  CODECFS_ASSIGN(const Ino ino, mount_.tree.nodes.chunk_ino(node, shard, variable.shards->grid.count()));
  std::optional<uint64_t> size;
  if (const std::shared_ptr<StagedFile> staged = mount_.tree.staged_files.find(ino)) size = staged->shown_size();
  if (!size) {
    CODECFS_ASSIGN(const auto file, open_shard(node, shard));
    size = file->size();
  }
  struct stat status = inodes_.make(node, ino, S_IFREG, *size);
  status.st_blocks = std::max<blkcnt_t>(status.st_blocks, 1);
  return status;
}

Result<std::shared_ptr<const ContentReader>> EncodedView::open_shard(const Node& node, uint64_t shard) {
  CODECFS_TRY(mount_.chunks.write_back.store(node.object));
  CODECFS_ASSIGN(auto file, mount_.dataset.source().open_shard(node.object, shard));
  if (!file) return std::unexpected(Error{ENOENT, {}});
  return file;
}

Result<> EncodedView::put_shard(const Node& node, const ChunkPlace& shard, std::optional<Bytes> bytes) {
  Source& source = mount_.dataset.source();
  CODECFS_TRY(source.variable_writable(shard.object));
  CODECFS_TRY(source.begin_writing_to(shard.object));
  for (;;) {
    CODECFS_ASSIGN(const VariableViewPtr told, mount_.dataset.variable(shard.object));
    // Without the pause: it takes the decoding of all chunks.
    if (bytes) CODECFS_TRY(source.check_shard(shard.object, shard.number, *bytes));
    CODECFS_ASSIGN(const WriteBack::Pause pause, mount_.chunks.write_back.pause(shard.object));
    CODECFS_ASSIGN(const VariableViewPtr now, mount_.dataset.variable(shard.object));
    const Variable& facts = *now->facts;
    if (!have_same_shards(*shard.variable->facts, facts))
      return fail(ESTALE, "{}: its shape or its shards were changed meanwhile: the shard is not stored", node.path);
    if (bytes && *now->codecs != *told->codecs) continue;
    CODECFS_TRY(bytes ? source.write_shard(shard.object, shard.number, *bytes)
                      : source.remove_shard(shard.object, shard.number));
    for (const ChunkRange& range : chunks_of_shard(facts, shard.number)) {
      CODECFS_ASSIGN(const Ino key, mount_.tree.nodes.chunk_key(node, range.first, facts.grid.count()));
      mount_.chunks.write_back.forget_range({key, shard.object, range.first, now}, range.count);
    }
    break;
  }
  mount_.chunks.write_back.note_change();
  CODECFS_ASSIGN(const Ino ino,
                 mount_.tree.nodes.chunk_ino(node, shard.number, shard.variable->facts->shards->grid.count()));
  mount_.tree.times.set(ino, {}, now());
  return {};
}

}  // namespace codecfs::fs
