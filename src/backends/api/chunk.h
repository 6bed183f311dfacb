#pragma once
// What a Source tells and takes of chunks.

#include <cstdint>
#include <optional>
#include <string>

#include "base/buffer.h"
#include "base/result.h"

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

/// A chunk to be written.
struct NumberedChunk {
  uint64_t number = 0;
  Bytes bytes;
};

/// A chunk as it is now, to change a part of it.
struct ChunkBase {
  std::optional<Buffer> chunk;         // none: it is not stored
  std::optional<std::string> version;  // for Source::update_chunk()
  bool is_changed = false;             // another program has changed it since it was last read here
};

/// What Source::update_chunk() has done.
struct UpdatedChunk {
  std::optional<std::string>
      version;              // what is stored is the given chunk, and this its version; none: that is not known
  bool has_others = false;  // what others have stored is in it, too
};

}  // namespace codecfs
