#pragma once
// Commits of a store: makes all changes durable and keeps consolidated metadata up to date.

#include <functional>

#include "backends/zarr/source/open_store.h"
#include "backends/zarr/source/shard_writer.h"
#include "backends/zarr/store/store_writer.h"

namespace codecfs::zarr {

class StoreCommits {
 public:
  /// All must outlive this object.
  StoreCommits(OpenStore& store, StoreWriter& writer, ShardWriter& shards)
      : store_(store), writer_(writer), shards_(shards) {}

  /// Makes durable what was changed in this mount, and with `also_inherited` what was in the store before it.
  Result<> commit(bool also_inherited);
  /// See StoreWriter::commit_at_interval().
  Result<bool> commit_at_interval();

 private:
  Result<bool> commit_with(const std::function<Result<bool>()>& commit);
  Result<> renew_consolidated();

  OpenStore& store_;
  StoreWriter& writer_;
  ShardWriter& shards_;
};

}  // namespace codecfs::zarr
