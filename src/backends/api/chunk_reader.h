#pragma once
// Reads the chunks of variables. Thread-safe. Chunks have numbers below ChunkGrid::count() of the variable's grid.
//
// Errors: ENOENT (no such object or chunk), EIO (damaged or unreadable, missing filter), ENOMEM; each with a reason.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backends/api/object.h"
#include "base/buffer.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs {

/// Where and how a chunk is stored.
struct ChunkInfo {
  bool stored = false;
  uint64_t stored_size = 0;        // bytes as stored, for st_blocks; a proportional share if the layout is not chunked
  std::optional<uint64_t> offset;  // offset in the file that stores the chunk, if it is contiguous
  uint32_t filter_mask = 0;        // HDF5: bit i set = filter i was skipped
};

struct DecodedChunk {
  Buffer bytes;              // exactly Variable::chunk_bytes if that is known, C order, edge chunks padded with fill
  uint64_t stored_size = 0;  // as ChunkInfo::stored_size
  bool is_changed = false;   // another program has changed it, or others with it, since it was last read here
};

/// A file that is open for reading, with the content that it had when it was opened. Thread-safe.
class ContentReader {
 public:
  virtual ~ContentReader() = default;

  [[nodiscard]] virtual uint64_t size() const = 0;  // bytes
  /// Exactly these bytes. EIO if they are not in the file.
  [[nodiscard]] virtual Result<Buffer> read(uint64_t offset, uint64_t size) const = 0;
};

class ChunkReader {
 public:
  virtual ~ChunkReader() = default;

  /// Looks up one chunk without reading it. A chunk that is not stored is not an error. Takes less than a microsecond
  /// if the format permits.
  virtual Result<ChunkInfo> locate(ObjectId variable, uint64_t number) = 0;
  /// The numbers of at most `limit` stored chunks from `from` on, ascending; empty at the end. The time is proportional
  /// to the size of the batch even in a sparse grid, and the memory does not depend on the variable's number of chunks.
  virtual Result<std::vector<uint64_t>> stored_chunks(ObjectId variable, uint64_t from, size_t limit) = 0;
  /// Reads and decodes one chunk. ENOENT if it is not stored.
  virtual Result<DecodedChunk> fetch_chunk(ObjectId variable, uint64_t number) = 0;
  /// A part of a decoded chunk, if the source can read it without the rest: chunks without filters are stored so. None
  /// if it cannot, or the chunk is not stored. `offset` + `size` is at most Variable::chunk_bytes.
  virtual Result<std::optional<Buffer>> read_part(ObjectId, uint64_t /*number*/, uint64_t /*offset*/,
                                                  uint64_t /*size*/) {
    return std::optional<Buffer>();
  }
  /// These chunks will be read soon: a source that waits for a network requests them together. May wait for their
  /// places. Errors show again when the chunks are read.
  virtual Result<> expect(ObjectId, std::span<const uint64_t> /*numbers*/) { return {}; }
  /// Its bytes alone.
  Result<Buffer> read_chunk(ObjectId variable, uint64_t number) {
    CODECFS_ASSIGN(DecodedChunk chunk, fetch_chunk(variable, number));
    return std::move(chunk.bytes);
  }

  /// The encoded bytes of a chunk, if decoding them with Variable::filters gives what read_chunk() returns. None if
  /// that is not the case (a filter mask, another element order or type, a part of a larger block) or unknown; the
  /// caller must then decode and encode. ENOENT if the chunk is not stored.
  virtual Result<std::optional<Buffer>> read_stored(ObjectId, uint64_t) { return std::optional<Buffer>(); }
  /// The size of what read_stored() would return, from ChunkInfo::stored_size; none in the same cases.
  virtual Result<std::optional<uint64_t>> stored_bytes(ObjectId, uint64_t) { return std::optional<uint64_t>(); }

  /// Opens, for reading, the file that has exactly the bytes that read_stored() returns; none in the same cases, and if
  /// there is no such file.
  virtual Result<std::optional<UniqueFd>> open_stored(ObjectId, uint64_t) { return std::optional<UniqueFd>(); }

  /// The offset of the same bytes in the file of the source; none in the same cases, and if they are not there in one
  /// piece. May read the file where locate() does not. Only for sources that are one file.
  virtual Result<std::optional<uint64_t>> stored_offset(ObjectId, uint64_t) { return std::optional<uint64_t>(); }

  // Of variables with Variable::shards: the shards as they are stored, with all chunks that were written before. Shards
  // have numbers below Sharding::grid.count().

  /// The numbers of at most `limit` stored shards from `from` on, ascending.
  virtual Result<std::vector<uint64_t>> stored_shards(ObjectId, uint64_t /*from*/, size_t /*limit*/) {
    return std::vector<uint64_t>();
  }
  /// Opens a shard; null if it is not stored.
  virtual Result<std::shared_ptr<const ContentReader>> open_shard(ObjectId, uint64_t /*shard*/) {
    return std::shared_ptr<const ContentReader>();
  }
};

}  // namespace codecfs
