#pragma once
// Changes the filter pipeline of an array, or its shards: writes all of its chunks into a new directory (recode.h,
// reshard.h), without any lock, and atomically exchanges the directories. In an object store, which cannot do that,
// only arrays without chunks are changed.

#include <span>

#include "backends/zarr/source/open_store.h"
#include "backends/zarr/source/shard_writer.h"
#include "backends/zarr/source/store_editor.h"
#include "backends/zarr/store/store_writer.h"

namespace codecfs::zarr {

/// See Source::set_filters() of backends/api. Takes the locks of OpenStore itself.
Result<> change_pipeline(OpenStore& store, StoreEditor& editor, StoreWriter& writer, ShardWriter& shards, ObjectId id,
                         std::span<const FilterStage> filters, Progress& progress);
/// See Source::set_sharding() of backends/api. Takes the locks of OpenStore itself.
Result<> change_sharding(OpenStore& store, StoreEditor& editor, StoreWriter& writer, ShardWriter& shards, ObjectId id,
                         const Variable& wanted, Progress& progress);

}  // namespace codecfs::zarr
