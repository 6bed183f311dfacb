#pragma once
// Sequential reading of an array whose rows cross so many chunks that the chunks of a few rows exceed the cache: it is
// assembled in blocks, each of which decodes a chunk once. Thread-safe.

#include <list>
#include <memory>

#include "base/mutex.h"
#include "fs/chunks/array_file.h"
#include "fs/context/mount_context.h"

namespace codecfs::fs {

class ArrayBlocks {
 public:
  /// `block_size`: bytes.
  ArrayBlocks(MountContext& mount, uint64_t block_size) : mount_(mount), block_size_(block_size) {}

  /// Whether a request is better served by this class.
  [[nodiscard]] bool are_for(const ArrayFile& file, uint64_t offset, uint64_t size) const {
    return file.bytes_of_chunks(offset, size) > block_size_ * 2;
  }
  /// A part of the file of an inode.
  Result<ArrayFile::Part> read(Ino ino, const ArrayFile& file, uint64_t offset, uint64_t size,
                               const ArrayFile::ReadChunk& read_chunk);
  void clear() {
    const LockGuard lock(mutex_);
    blocks_.clear();
  }

 private:
  struct Block {
    Ino ino = 0;
    uint64_t index = 0;
    uint64_t state = 0;                                // MountContext::changes() when its assembly began
    Mutex mutex{LockRank::array_block};                // held during the assembly
    ArrayFile::Part part CODECFS_GUARDED_BY(mutex){};  // empty before the assembly
  };
  Result<ArrayFile::Part> block_of(Ino ino, const ArrayFile& file, uint64_t index,
                                   const ArrayFile::ReadChunk& read_chunk);

  MountContext& mount_;
  const uint64_t block_size_;
  Mutex mutex_;
  std::list<std::shared_ptr<Block>> blocks_ CODECFS_GUARDED_BY(mutex_);  // few, most recently used first
};

}  // namespace codecfs::fs
