#pragma once
// Read-ahead: chunks are decoded before a sequential reader asks for them, and pushed into the kernel's page cache,
// from which the kernel then answers the reader. Content that changes meanwhile must not stay there: see push_pages().
// Thread-safe.

#include "fs/chunks/array_file.h"
#include "fs/context/mount_context.h"
#include "fs/views/encoded_view.h"

namespace codecfs::fs {

class Prefetcher {
 public:
  Prefetcher(MountContext& mount, EncodedView& encoded) : mount_(mount), encoded_(encoded) {}
  /// The chunk's file was opened for reading. Returns what the kernel may read from a backing file, if it may.
  std::optional<PassableChunk> opened_to_read(const Node& node, const ChunkPlace& chunk);
  /// A sequential reader of an array has reached this chunk.
  void chunk_of_array(const ChunkPlace& chunk);
  /// These chunks of an array, of which the first is `chunk`, will be read soon.
  void chunks_of_array(const ChunkPlace& chunk, std::span<const uint64_t> numbers);
  /// Pushes a chunk that a random reader of an array has touched: it may return to it, and decoding again is expensive.
  /// `ino`, `file`: of the array; `changes`: MountContext::changes() before the chunk was decoded.
  void give_chunk(Ino ino, const ArrayFile& file, uint64_t number, const ChunkPtr& chunk, uint64_t changes);

 private:
  /// Pushes content of a file, produced when changes() was `changes`, to the kernel. Whether the kernel has it now.
  bool push_pages(Ino ino, uint64_t offset, Bytes content, uint64_t changes);
  void fetch_file(const Node& node, const ChunkPlace& chunk);
  /// Decodes a chunk into the cache, if it is stored and not being edited. Null if a reader has asked for it already.
  ChunkPtr fetch_decoded(const ChunkPlace& chunk);
  /// The chunk, if its file can be passed through. `is_expected`: see there.
  std::optional<PassableChunk> passable(const Node& node, const ChunkPlace& chunk, bool is_expected);
  std::optional<PassableChunk> passable_encoded(const Node& node, const ChunkPlace& chunk);
  /// Null if the source need not know what is read ahead.
  [[nodiscard]] ReadAhead::Expect expect_of(const ChunkPlace& chunk) const;
  static ChunkPlace place_beside(ChunkPlace chunk, uint64_t number);

  MountContext& mount_;
  EncodedView& encoded_;
};

}  // namespace codecfs::fs
