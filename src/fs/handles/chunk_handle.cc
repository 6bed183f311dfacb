#include "fs/handles/chunk_handle.h"

namespace codecfs::fs {

ChunkHandle::ChunkHandle(ChunkIo& io, const Node& node, ChunkPlace chunk, WriteBack::Writer writer)
    : FileHandle(writer.is_open()), io_(io), node_(node), chunk_(std::move(chunk)), writer_(std::move(writer)) {
  caching.mappable = true;
}

Result<> ChunkHandle::check() const {
  CODECFS_TRY(io_.mount().tree.nodes.at(chunk_.key));
  return {};
}

Result<Slice> ChunkHandle::read(uint64_t offset, size_t size) {
  CODECFS_TRY(check());
  CODECFS_ASSIGN(const Ino ino,
                 io_.mount().tree.nodes.chunk_ino(node_, chunk_.number, chunk_.variable->facts->grid.count()));
  return io_.read(chunk_, ino, offset, size);
}

Result<size_t> ChunkHandle::write(uint64_t offset, Bytes bytes, const PageCopies::WrittenBack* written_back,
                                  const Cancelled& cancelled) {
  return io_.write(node_, chunk_, offset, bytes, written_back, cancelled);
}

Result<> ChunkHandle::flush(const Cancelled&) {
  // If it is stale now, what was written before is stored, or was removed with its variable.
  if (!is_writer() || !check()) return {};
  return io_.mount().chunks.write_back.flush(chunk_);
}

Result<> ChunkHandle::sync(const Cancelled&) {
  CODECFS_TRY(check());
  return io_.mount().chunks.write_back.sync(chunk_);
}

bool ChunkHandle::close() {
  if (!writer_.is_open()) return false;
  const bool longer = io_.close_writer(node_, chunk_, writer_);
  if (!check()) return false;
  log_unreported(io_.mount().chunks.write_back.flush(chunk_));
  return longer;
}

}  // namespace codecfs::fs
