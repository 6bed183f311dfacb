#pragma once
// An open chunk of a decoded view.

#include <memory>
#include <utility>

#include "fs/handles/chunk_io.h"
#include "fs/handles/file_handle.h"
#include "fs/handles/snapshot_handle.h"

namespace codecfs::fs {

class ChunkHandle : public FileHandle {
 public:
  /// `node`: the variable in the view of the file. `writer`: of the chunk; not open for a reader.
  ChunkHandle(ChunkIo& io, const Node& node, ChunkPlace chunk, WriteBack::Writer writer = {});

  Result<Slice> read(uint64_t offset, size_t size) override;
  Result<size_t> write(uint64_t offset, Bytes bytes, const PageCopies::WrittenBack* written_back,
                       const Cancelled& cancelled) override;
  Result<> flush(const Cancelled& cancelled) override;
  Result<> sync(const Cancelled& cancelled) override;
  bool close() override;
  Result<struct stat> attributes_of_removed(Ino ino) override { return io_.attributes_of_removed(ino, chunk_); }

 private:
  /// ESTALE if the variable was removed or reshaped since the open.
  Result<> check() const;

  ChunkIo& io_;
  const Node& node_;
  const ChunkPlace chunk_;
  WriteBack::Writer writer_;
};

/// A chunk of unknown size: the one that lookup returned is that of these bytes, which are kept while it is open.
class ChunkSnapshotHandle final : public ChunkHandle {
 public:
  ChunkSnapshotHandle(ChunkIo& io, const Node& node, ChunkPlace chunk, WholeFiles& whole,
                      std::unique_ptr<Snapshot> snapshot)
      : ChunkHandle(io, node, std::move(chunk)), content_(whole, std::move(snapshot), false) {}

  Result<Slice> read(uint64_t offset, size_t size) override { return content_.read(offset, size); }

 private:
  SnapshotHandle content_;
};

}  // namespace codecfs::fs
