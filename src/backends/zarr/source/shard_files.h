#pragma once
// The shards of sharded arrays as whole files. See Source of backends/api for the functions.
// Thread-safe; takes the locks of OpenStore itself, but decodes without them.
//
// Chunks that are held for an array (shard_writer.h) are written before its shards are shown.

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/zarr/source/open_store.h"
#include "backends/zarr/source/shard_writer.h"
#include "backends/zarr/store/store_writer.h"

namespace codecfs::zarr {

class ShardFiles {
 public:
  /// All must outlive this object.
  ShardFiles(OpenStore& store, StoreWriter& writer, ShardWriter& held) : store_(store), writer_(writer), held_(held) {}

  Result<std::vector<uint64_t>> stored(ObjectId variable, uint64_t from, size_t limit);
  Result<std::shared_ptr<const ContentReader>> open(ObjectId variable, uint64_t shard);
  Result<> check(ObjectId variable, uint64_t shard, Bytes bytes);
  Result<> write(ObjectId variable, uint64_t shard, Bytes bytes);
  Result<> remove(ObjectId variable, uint64_t shard);

 private:
  // Under using_keys().
  Result<ArrayPtr> shown(ObjectId variable);
  Result<ArrayPtr> to_change(ObjectId variable, uint64_t shard);
  Result<> replace(ObjectId variable, uint64_t shard, std::optional<Bytes> bytes);

  OpenStore& store_;
  StoreWriter& writer_;
  ShardWriter& held_;
};

}  // namespace codecfs::zarr
