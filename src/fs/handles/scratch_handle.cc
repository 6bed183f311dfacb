#include "fs/handles/scratch_handle.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace codecfs::fs {

Result<std::optional<ChunkPlace>> ScratchHandle::chunk() {
  CODECFS_ASSIGN(const Place place, io_.mount().tree.place_of(ino_));
  if (place.node->kind == NodeKind::scratch || place.file != FileKind::chunk) return std::optional<ChunkPlace>();
  if (place.node->form().is_encoded)
    return fail(ESTALE, "{}: was renamed to an encoded chunk; open it under that name", place.node->path);
  CODECFS_ASSIGN(ChunkPlace chunk, io_.mount().chunk_place(ino_));
  return std::optional(std::move(chunk));
}

Result<Slice> ScratchHandle::read(uint64_t offset, size_t size) {
  CODECFS_ASSIGN(const std::optional<ChunkPlace> became, chunk());
  if (became) return io_.read(*became, ino_, offset, size);
  CODECFS_ASSIGN(std::string bytes, io_.mount().tree.scratch.read(ino_, offset, size));
  const auto owner = std::make_shared<const std::string>(std::move(bytes));
  io_.mount().stats.bytes_read += owner->size();
  return Slice{std::as_bytes(std::span(*owner)), owner};
}

Result<size_t> ScratchHandle::write(uint64_t offset, Bytes bytes, const PageCopies::WrittenBack* written_back,
                                    const Cancelled& cancelled) {
  if (written_back != nullptr && !written_back->any) return bytes.size();
  CODECFS_ASSIGN(const bool still, io_.mount().tree.scratch.write(ino_, offset, bytes));
  if (still) return bytes.size();
  CODECFS_ASSIGN(const std::optional<ChunkPlace> became, chunk());
  if (!became) return fail(EBADF, "not open for writing");
  CODECFS_ASSIGN(const Place place, io_.mount().tree.place_of(ino_));
  CODECFS_ASSIGN(const size_t written, io_.write(*place.node, *became, offset, bytes, written_back, cancelled, ino_));
  // The kernel has the written bytes in the pages of the former inode: invalidate the chunk's own.
  if (const std::optional<Ino> now = io_.mount().tree.scratch.promoted_to(ino_))
    io_.mount().kernel.invalidator->content_changed(*now, false);
  return written;
}

Result<> ScratchHandle::flush(const Cancelled&) {
  if (!is_writer()) return {};
  const Result<std::optional<ChunkPlace>> became = chunk();
  // If it is stale now, what was written before is stored, or was removed with its variable.
  if (!became || !*became) return {};
  return io_.mount().chunks.write_back.flush(**became);
}

Result<> ScratchHandle::sync(const Cancelled&) {
  CODECFS_ASSIGN(const std::optional<ChunkPlace> became, chunk());
  if (!became) return {};  // scratch files are not stored anywhere
  return io_.mount().chunks.write_back.sync(*became);
}

bool ScratchHandle::close() {
  // Only files that were opened as a chunk count as its writers.
  log_unreported(flush({}));
  return false;
}

}  // namespace codecfs::fs
