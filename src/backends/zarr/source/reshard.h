#pragma once
// Writes an array's directory again with the same chunks in other shards, with and without them, or with other codecs
// in the same shards. Chunks with the same encoding are copied as they are stored. All cores work, one new file per
// thread; fewer threads work on large shards, so that memory stays bounded.

#include "backends/api/source.h"
#include "backends/zarr/source/open_array.h"
#include "backends/zarr/store/store_writer.h"
#include "base/result.h"

namespace codecfs::zarr {

/// Stores all chunks of `from`, from its directory `source`, as those of `to` in `target`. Both have the same type, and
/// grid of chunks. Absent chunks stay absent. ECANCELED; EIO and EINVAL with the name of what cannot be read, decoded
/// or encoded.
Result<> reshard_chunks(const Store& source, const OpenArray& from, const OpenArray& to, NewDirectory& target,
                        Progress& progress);

}  // namespace codecfs::zarr
