#pragma once
// Locates, lists and reads the chunk files of a store. See ChunkReader of backends/api for the functions. Thread-safe;
// takes OpenStore::using_keys() itself, but decodes without it.

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/zarr/source/open_store.h"

namespace codecfs::zarr {

/// All stored chunks of an array, ascending.
Result<std::vector<uint64_t>> stored_chunks_of(OpenStore& store, const OpenArray& array);

class ChunkFileReader {
 public:
  /// `store` must outlive this object.
  explicit ChunkFileReader(OpenStore& store) : store_(store) {}

  Result<ChunkInfo> locate(ObjectId variable, uint64_t number);
  Result<std::vector<uint64_t>> stored_chunks(ObjectId variable, uint64_t from, size_t limit);
  Result<DecodedChunk> fetch_chunk(ObjectId variable, uint64_t number);
  Result<std::optional<uint64_t>> stored_bytes(ObjectId variable, uint64_t number);
  Result<std::optional<Buffer>> read_stored(ObjectId variable, uint64_t number);

 private:
  Result<std::optional<Buffer>> read_encoded(const OpenArray& array, uint64_t number);

  OpenStore& store_;
};

}  // namespace codecfs::zarr
