#pragma once
// An array's directory made anew with another chain. Chunks are decoded and encoded on all cores, each by one thread
// that holds one chunk at a time; with large chunks it is fewer threads, so that memory stays bounded. The order of
// elements in a chunk and the names of chunks stay as they are.

#include "backends/api/source.h"
#include "backends/zarr/metadata/metadata_write.h"
#include "backends/zarr/source/open_array.h"
#include "backends/zarr/store/store_writer.h"
#include "base/result.h"

namespace codecfs::zarr {

/// Writes all chunks of `array`, whose directory `source` is, into `target`. Chunks that are absent stay so. ECANCELED;
/// EIO and EINVAL with the name of the chunk that cannot be decoded or encoded.
Result<> recode_chunks(const Store& source, const OpenArray& array, const Chain& chain, NewDirectory& target,
                       Progress& progress);

/// Writes everything else of the directory: .zarray with the new chain, all other files as they are. What has the form
/// of a chunk's name but lies outside of the shape is left out: nobody could decode it any more. EOPNOTSUPP for what
/// cannot be copied.
Result<> copy_other_files(const Store& source, const OpenArray& array, const Chain& chain, NewDirectory& target);

}  // namespace codecfs::zarr
