#pragma once
// Commits of a store: makes all changes durable and keeps .zmetadata up to date.

#include <functional>

#include "backends/zarr/source/open_store.h"
#include "backends/zarr/store/store_writer.h"

namespace codecfs::zarr {

class StoreCommits {
 public:
  /// Both must outlive this object.
  StoreCommits(OpenStore& store, StoreWriter& writer) : store_(store), writer_(writer) {}

  /// Makes durable what was changed in this mount, and with `also_inherited` what was in the store before it.
  Result<> commit(bool also_inherited);
  /// See StoreWriter::commit_at_interval().
  Result<bool> commit_at_interval();

 private:
  Result<bool> commit_with(const std::function<Result<bool>()>& commit);
  Result<> renew_consolidated();

  OpenStore& store_;
  StoreWriter& writer_;
};

}  // namespace codecfs::zarr
