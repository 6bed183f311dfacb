#pragma once
// Writes and removes the chunk files of a store. See Source of backends/api for the functions. Thread-safe; takes
// the locks of OpenStore itself, but encodes without them.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "backends/api/chunk.h"
#include "backends/zarr/source/metadata_changes.h"
#include "backends/zarr/source/open_store.h"
#include "backends/zarr/source/shard_writer.h"
#include "backends/zarr/store/shared_store.h"
#include "backends/zarr/store/store_writer.h"

namespace codecfs::zarr {

class ChunkFileWriter {
 public:
  /// All must outlive this object.
  ChunkFileWriter(OpenStore& store, MetadataChanges& metadata, StoreWriter& writer, ShardWriter& shards)
      : store_(store), metadata_(metadata), writer_(writer), shards_(shards) {}

  Result<> write_chunk(ObjectId variable, uint64_t number, Bytes chunk);
  Result<bool> write_stored(ObjectId variable, uint64_t number, Bytes stored);
  Result<> remove_chunk(ObjectId variable, uint64_t number);
  Result<> begin_updates(ObjectId variable);
  Result<ChunkBase> fetch_base(ObjectId variable, uint64_t number);
  Result<UpdatedChunk> update_chunk(ObjectId variable, uint64_t number, Bytes chunk, const ByteSet& written,
                                    const std::optional<std::string>& version);

 private:
  struct Target {
    ArrayPtr array;
    std::string name;  // of the chunk's file; empty if it is in a shard
  };

  /// Uses the current .zarray, as a chunk encoded with another pipeline could not be read. Chunk numbers refer to the
  /// shape that OpenStore::array() returned. ESTALE if the current grid differs. Under using_keys().
  Result<Target> target_of(ObjectId variable, uint64_t number);
  Result<Target> target_of_locked(ObjectId variable, uint64_t number);
  /// `encoded`: null, the chunk is removed. `part`: what of it was written; null: all.
  Result<> put_in_shard(const Target& target, uint64_t number, const Bytes* encoded,
                        std::shared_ptr<const WrittenPart> part = nullptr);
  Result<UpdatedChunk> update_in_shard(ObjectId variable, uint64_t number, Bytes chunk, const ByteSet& written);
  /// The chunk as it is stored now.
  Result<ChunkBase> read_base(const OpenArray& array, const std::string& key);
  void refresh_listing(const Target& target, uint64_t number);

  OpenStore& store_;
  MetadataChanges& metadata_;
  StoreWriter& writer_;
  ShardWriter& shards_;
};

}  // namespace codecfs::zarr
