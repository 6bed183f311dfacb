#pragma once
// An open scratch file, which may become a chunk while it is open.

#include "fs/handles/chunk_io.h"
#include "fs/handles/file_handle.h"

namespace codecfs::fs {

class ScratchHandle final : public FileHandle {
 public:
  ScratchHandle(ChunkIo& io, Ino ino, bool is_writer) : FileHandle(is_writer), io_(io), ino_(ino) {}

  Result<Slice> read(uint64_t offset, size_t size) override;
  Result<size_t> write(uint64_t offset, Bytes bytes, const PageCopies::WrittenBack* written_back,
                       const Cancelled& cancelled) override;
  Result<> flush(const Cancelled& cancelled) override;
  Result<> sync(const Cancelled& cancelled) override;
  bool close() override;

 private:
  /// The chunk that it has become; none if it is still a scratch file, or has become a metadata file. ESTALE.
  Result<std::optional<ChunkPlace>> chunk();

  ChunkIo& io_;
  const Ino ino_;
};

}  // namespace codecfs::fs
