#pragma once
// Writes an array's directory again with another filter pipeline. All cores decode and encode chunks, one chunk per
// thread; fewer threads work on large chunks, so that memory stays bounded. The order of elements in a chunk and the
// names of chunks do not change.

#include "backends/api/source.h"
#include "backends/zarr/metadata/metadata_write.h"
#include "backends/zarr/source/open_array.h"
#include "backends/zarr/store/store_writer.h"
#include "base/result.h"

namespace codecfs::zarr {

/// Re-encodes all chunks of `array`, which has no shards, from its directory `source` to `target`. Absent chunks stay
/// absent. ECANCELED; EIO and EINVAL with the name of the chunk that cannot be decoded or encoded.
Result<> recode_chunks(const Store& source, const OpenArray& array, const Chain& chain, NewDirectory& target,
                       Progress& progress);

/// Writes the array's metadata file with the text `metadata`, and copies everything else in the directory unchanged.
/// Omits chunk files outside of the shape, which could not be decoded any more. EOPNOTSUPP for files that cannot be
/// copied.
Result<> copy_other_files(const Store& source, const OpenArray& array, const char* metadata_file,
                          const std::string& metadata, NewDirectory& target);

}  // namespace codecfs::zarr
