#include "fs/handles/chunk_io.h"

#include <utility>

#include "fs/handles/file_handle.h"
#include "fs/nodes/chunk_names.h"
#include "fs/nodes/clock.h"

namespace codecfs::fs {

Result<Slice> ChunkIo::read(const ChunkPlace& chunk, Ino ino, uint64_t offset, size_t size) {
  const uint64_t changes = mount_.changes();
  if (const std::optional<WriteBack::Content> edited = mount_.chunks.write_back.content(chunk.key))
    return part_of(mount_.stats, {edited->bytes->bytes().first(edited->size), edited->bytes}, offset, size);
  Result<ChunkPtr> stored = mount_.chunks.decoder.decoded(chunk);
  // Removed since the open: it reads as fill.
  if (!stored && stored.error().code == ENOENT) stored = mount_.chunks.decoder.base_of(chunk);
  CODECFS_ASSIGN(const ChunkPtr bytes, std::move(stored));
  Slice slice = part_of(mount_.stats, {bytes->bytes(), bytes}, offset, size);
  if (mount_.chunks.cache.served(chunk.key, slice.bytes.size()) && !mount_.options.coherent)
    mount_.kernel.pages_given.given(ino, changes);
  return slice;
}

Result<size_t> ChunkIo::write(const Node& node, const ChunkPlace& chunk, uint64_t offset, Bytes bytes,
                              const PageCopies::WrittenBack* written_back, const Cancelled& cancelled,
                              Ino written_through) {
  if (written_back != nullptr && !written_back->any && !arrays_.is_made_by_unchanged(chunk).value_or(false))
    return bytes.size();
  // The variable may have been removed or reshaped since the open.
  CODECFS_TRY(mount_.tree.nodes.at(chunk.key));
  CODECFS_ASSIGN(const Ino ino, mount_.tree.nodes.chunk_ino(node, chunk.number, chunk.variable->facts->grid.count()));
  const Bytes mask = written_back != nullptr ? Bytes(written_back->changed) : Bytes();
  CODECFS_TRY(filters_.apply_rules(chunk, cancelled));
  CODECFS_ASSIGN(const size_t written, mount_.chunks.write_back.write(chunk, offset, bytes, mask));
  mount_.tree.times.set(ino, {}, now());
  notifier_.chunk_changed(node, chunk.number, written_through);
  return written;
}

bool ChunkIo::close_writer(const Node& node, const ChunkPlace& chunk, WriteBack::Writer& writer) {
  const Result<bool> longer = writer.close();
  if (!longer) note_refused(node, chunk, longer.error());
  const bool is_changed = !longer || *longer;
  // Other views show the length too.
  if (is_changed && mount_.tree.nodes.at(chunk.key)) notifier_.chunk_changed(node, chunk.number);
  return is_changed;
}

void ChunkIo::note_refused(const Node& node, const ChunkPlace& chunk, const Error& error) {
  const Result<Ino> ino = mount_.tree.nodes.chunk_ino(node, chunk.number, chunk.variable->facts->grid.count());
  const std::string path = path_of_chunk(node.view, *chunk.variable->facts, chunk.number);
  const std::string reason = fmt::format("{}/{}: {}; the chunk is what it was before", node.path, path, error.reason);
  mount_.note_error(ino.value_or(chunk.key), {error.code, reason}, RequestKind::writing);
}

Result<struct stat> ChunkIo::attributes_of_removed(Ino ino, const ChunkPlace& chunk) {
  CODECFS_ASSIGN(const Place place, mount_.tree.place_of(ino));
  if (place.file != FileKind::chunk) return not_there();
  const Variable& variable = *chunk.variable->facts;
  struct stat status = inodes_.make(*place.node, ino, S_IFREG, variable.chunk_bytes.value_or(0));
  status.st_nlink = 0;
  return status;
}

}  // namespace codecfs::fs
