#pragma once
// Locates, lists and reads the chunk files of a store. See Source of backends/api for the functions. Thread-safe;
// takes OpenStore::using_keys() itself, but decodes without it.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/zarr/source/open_store.h"
#include "backends/zarr/source/shard_writer.h"

namespace codecfs::zarr {

/// All stored chunks of an array, ascending.
Result<std::vector<uint64_t>> stored_chunks_of(OpenStore& store, const OpenArray& array);

class ChunkFileReader {
 public:
  /// Both must outlive this object.
  ChunkFileReader(OpenStore& store, ShardWriter& shards) : store_(store), held_shards_(shards) {}

  Result<ChunkInfo> locate(ObjectId variable, uint64_t number);
  Result<std::vector<uint64_t>> stored_chunks(ObjectId variable, uint64_t from, size_t limit);
  Result<> expect(ObjectId variable, std::span<const uint64_t> numbers);
  Result<> expect_places(ObjectId variable, std::span<const uint64_t> numbers);
  Result<DecodedChunk> fetch_chunk(ObjectId variable, uint64_t number);
  Result<std::optional<Buffer>> read_part(ObjectId variable, uint64_t number, uint64_t offset, uint64_t size);
  Result<std::optional<uint64_t>> stored_bytes(ObjectId variable, uint64_t number);
  Result<std::optional<uint64_t>> stored_offset(ObjectId variable, uint64_t number);
  Result<std::optional<Buffer>> read_stored(ObjectId variable, uint64_t number);
  Result<std::optional<UniqueFd>> open_stored(ObjectId variable, uint64_t number);

 private:
  [[nodiscard]] Result<> check_absence(const OpenArray& array, uint64_t number) const;
  Result<std::optional<Buffer>> read_encoded(const OpenArray& array, uint64_t number);

  OpenStore& store_;
  ShardWriter& held_shards_;  // with chunks that are not in the store yet
};

}  // namespace codecfs::zarr
