#pragma once
// Writes the chunks of variables. Thread-safe. Each call acquires the right to write (Lifecycle::begin_writing_to())
// and succeeds completely or changes nothing. All readers see a write at once; it is durable after Lifecycle::commit().
//
// The defaults are those of a source that can only be read.

#include <cstdint>

#include "backends/api/object.h"
#include "base/buffer.h"
#include "base/result.h"

namespace codecfs {

class ChunkWriter {
 public:
  virtual ~ChunkWriter() = default;

  /// Succeeds, or returns why chunks of this variable cannot be written (EROFS, EOPNOTSUPP; EIO if a filter is
  /// missing).
  virtual Result<> variable_writable(ObjectId variable) = 0;
  /// Encodes a chunk (Variable::chunk_bytes bytes if that is known, in the form of read_chunk()) and stores it. The
  /// encoding runs in the calling thread, in parallel with other calls. ENOSPC, EBUSY, EINVAL for data that a filter
  /// cannot encode, and the errors of variable_writable().
  virtual Result<> write_chunk(ObjectId variable, uint64_t, Bytes) { return variable_writable(variable); }
  /// Stores a chunk that is already encoded with Variable::filters; the caller has checked that it can be decoded.
  /// False if encoded bytes cannot be stored (see ChunkReader::read_stored()), so that the caller must use
  /// write_chunk().
  virtual Result<bool> write_stored(ObjectId, uint64_t, Bytes) { return false; }
  /// Makes a chunk read as fill; it is deleted if the format permits. Not an error if the chunk is not stored.
  virtual Result<> remove_chunk(ObjectId variable, uint64_t) { return variable_writable(variable); }

  // Of variables with Variable::shards. See ChunkReader::open_shard().

  /// EINVAL with the reason if the bytes are no shard of the variable: its index and all of its chunks are decoded.
  virtual Result<> check_shard(ObjectId variable, uint64_t /*shard*/, Bytes) { return no_shards(variable); }
  /// Replaces a shard with all of its chunks by bytes that check_shard() has accepted. EINVAL if the index is damaged.
  virtual Result<> write_shard(ObjectId variable, uint64_t /*shard*/, Bytes) { return no_shards(variable); }
  /// Removes a shard with all of its chunks. Not an error if it is not stored.
  virtual Result<> remove_shard(ObjectId variable, uint64_t /*shard*/) { return no_shards(variable); }

 private:
  Result<> no_shards(ObjectId variable) {
    CODECFS_TRY(variable_writable(variable));
    return fail(EOPNOTSUPP, "there are no shards in this kind of source");
  }
};

}  // namespace codecfs
