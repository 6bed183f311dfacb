#pragma once
// Writes the inner chunks of sharded arrays. Encoded chunks are held in memory until their shards are written: by a
// commit, or when more than kMaxHeld bytes are held. A shard is written anew as a whole, once for all of its chunks,
// and renamed into place: the other chunks are copied as they are stored. A shard without chunks is removed. Nested
// shards, and shards that are encoded as a whole, are made in memory.
//
// In a store that other programs may write (shared_store.h), a shard is written on the condition that it is still the
// one of which the other chunks were copied; if not, that is repeated with the new one. Of a chunk of which a part was
// written, the rest is taken from that state, too. There, a shard without chunks stays, as a removal has no condition.
//
// Only for arrays with a layout that passes check_rewritable(). Thread-safe. Every function requires
// OpenStore::using_keys() or changing_keys().

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/zarr/source/open_store.h"
#include "backends/zarr/source/shard_builder.h"
#include "backends/zarr/store/shared_store.h"
#include "backends/zarr/store/store_writer.h"
#include "base/byte_set.h"
#include "base/mutex.h"
#include "base/result.h"

namespace codecfs::zarr {

/// A chunk of which only a part was written.
struct WrittenPart {
  Buffer chunk;  // decoded
  ByteSet written;
};

class ShardWriter {
 public:
  /// What is held for a chunk.
  struct Held {
    std::shared_ptr<const Buffer> encoded;    // null: it is removed
    std::shared_ptr<const WrittenPart> part;  // null: all of it was written
  };

  static constexpr uint64_t kMaxHeld = uint64_t{128} << 20;  // bytes

  /// Both must outlive this object.
  ShardWriter(OpenStore& store, StoreWriter& writer) : store_(store), writer_(writer) {}

  /// ENOMEM, and errors of write_shards().
  Result<> put(const ArrayPtr& array, uint64_t number, Held chunk);
  /// The encoded bytes that are held for a chunk, null: it is removed; none if nothing is held.
  std::optional<std::shared_ptr<const Buffer>> held(const OpenArray& array, uint64_t number);
  /// Adds and removes the chunks that are held for an array to a sorted list of the stored ones.
  void apply_held(const OpenArray& array, std::vector<uint64_t>& numbers);
  /// Forgets what is held for the arrays at a key and below it, which were removed. Requires changing_keys().
  void forget(const std::string& key);
  /// Replaces a shard, also what is held for its chunks, by these bytes; none: removes it.
  Result<> replace(const OpenArray& array, uint64_t shard, std::optional<Bytes> bytes);
  /// Whether anything is held for an array.
  bool holds_any(const OpenArray& array);
  /// Removes the stored chunks of an array that are in the grid `listed` but not in `kept`, which has the same chunk
  /// shape. Returns whether there were any. Nothing may be held for the array. `is_only_asked`: removes none.
  Result<bool> remove_outside(const OpenArray& array, const ChunkGrid& listed, const ChunkGrid& kept,
                              bool is_only_asked = false);
  /// Writes all shards with held chunks. Shards that cannot be written stay held, and are tried again by the next call;
  /// the first error is returned.
  Result<> write_shards();

 private:
  using Chunks = std::map<uint64_t, Held>;  // by number
  struct Shard {
    ArrayPtr array;  // its codecs encoded the chunks
    Chunks chunks;
  };
  using Key = std::pair<std::string, uint64_t>;  // of the array; number of the shard

  using FilePtr = std::shared_ptr<const StoredFile>;
  Result<> write_begun() CODECFS_REQUIRES(writing_mutex_);
  Result<> write_next(const Key& key);
  Result<> write_held(const Shard& shard, uint64_t number);
  Result<> write_into(const Shard& shard, const std::string& name);
  Result<Buffer> merged(const OpenArray& array, uint64_t number, const WrittenPart& part, const FilePtr& file);
  void refresh_listing(const OpenArray& array, uint64_t shard);
  void keep(const Key& key, Shard shard) CODECFS_REQUIRES(mutex_);
  static uint64_t size_of(const Held& chunk);
  /// The file of a shard as it is now; null if there is none.
  Result<FilePtr> open(const std::string& key);
  /// Replaces the shard, of which `file` is the state that the parts were made from; null: there was none. EAGAIN.
  Result<> replace_file(const OpenArray& array, const std::string& name, const FilePtr& file,
                        std::span<const StorePart> parts);
  Result<> rewrite(const OpenArray& array, const std::string& name, std::span<const ChunkChange> changes,
                   const FilePtr& file);
  Result<> rewrite_encoded(const OpenArray& array, const std::string& name, std::span<const ChunkChange> changes,
                           const FilePtr& file);
  /// The new content of one position of a shard: bytes in memory, null to remove it; not in the map: as it is.
  using Positions = std::map<uint64_t, const Buffer*>;
  Result<> write_positions(const OpenArray& array, const std::string& name, const Positions& changed,
                           const FilePtr& file, const std::vector<ShardEntry>& old);

  OpenStore& store_;
  StoreWriter& writer_;
  Mutex writing_mutex_{LockRank::shard_writing};  // held while shards are written; locked before mutex_
  Mutex mutex_;
  std::map<Key, Shard> held_ CODECFS_GUARDED_BY(mutex_);
  std::map<Key, Shard> being_written_ CODECFS_GUARDED_BY(mutex_);  // still what readers must see
  std::optional<Error> failure_ CODECFS_GUARDED_BY(mutex_);        // the first of write_shards()
  uint64_t bytes_in_memory_ CODECFS_GUARDED_BY(mutex_) = 0;
};

}  // namespace codecfs::zarr
