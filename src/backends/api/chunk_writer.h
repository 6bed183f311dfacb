#pragma once
// Writes the chunks of variables. Thread-safe. Each call acquires the right to write (Lifecycle::begin_writing_to())
// and succeeds completely or changes nothing. All readers see a write at once; it is durable after Lifecycle::commit().
//
// The defaults are those of a source that can only be read.

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "backends/api/object.h"
#include "base/buffer.h"
#include "base/byte_set.h"
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
  struct NumberedChunk {
    uint64_t number = 0;
    Bytes bytes;
  };
  /// Whether write_chunks() of this variable stores small chunks at less expense than write_chunk().
  virtual bool writes_together(ObjectId) { return false; }
  /// Stores chunks of one size, from the first on, and returns how many it has stored, perhaps none. The others must be
  /// stored by write_chunk(), which also says why one cannot be stored.
  virtual Result<uint64_t> write_chunks(ObjectId, std::span<const NumberedChunk>) { return uint64_t{0}; }
  /// Stores a chunk that is already encoded with Variable::filters; the caller has checked that it can be decoded.
  /// False if encoded bytes cannot be stored (see ChunkReader::read_stored()), so that the caller must use
  /// write_chunk().
  virtual Result<bool> write_stored(ObjectId, uint64_t, Bytes) { return false; }

  // --- Sources that other programs may write at the same time. There, a chunk of a fixed length of which not all bytes
  // were written must be stored by update_chunk(), so that what others store meanwhile is kept.

  [[nodiscard]] virtual bool is_shared() const { return false; }
  /// Must succeed before the first update_chunk(): EOPNOTSUPP with the reason if parts of chunks cannot be stored
  /// safely, and the errors of variable_writable().
  virtual Result<> begin_updates(ObjectId variable) { return variable_writable(variable); }
  struct Base {
    std::optional<Buffer> chunk;         // none: it is not stored
    std::optional<std::string> version;  // for update_chunk()
    bool is_changed = false;             // another program has changed it since it was last read here
  };
  /// A chunk as it is now, to change a part of it.
  virtual Result<Base> fetch_base(ObjectId variable, uint64_t) {
    CODECFS_TRY(variable_writable(variable));
    return fail(EOPNOTSUPP, "no part of a chunk can be changed");
  }
  struct Updated {
    std::optional<std::string> version;  // what is stored is `chunk`, and this its version; none: that is not known
    bool has_others = false;             // what others have stored is in it, too
  };
  /// write_chunk() that keeps what others have stored, except for the `written` bytes of `chunk`. `version`: the one of
  /// which all other bytes of `chunk` are; none: they are not used.
  virtual Result<Updated> update_chunk(ObjectId variable, uint64_t number, Bytes chunk, const ByteSet& /*written*/,
                                       const std::optional<std::string>& /*version*/) {
    CODECFS_TRY(write_chunk(variable, number, chunk));
    return Updated{};
  }

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
