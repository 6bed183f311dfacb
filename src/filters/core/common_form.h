#pragma once
// Encoded chunks that the usual decoders of other programs take, and not only ours. The codecs here are more liberal:
// what one of them has decoded is not by that a chunk that libhdf5's plugins, numcodecs and netCDF-C can decode, and
// so must not be passed from one format into the other as it is.
//
//   zstd     HDF5's filter and numcodecs allocate what the frame's header says: the size must be there, in one frame
//   blosc    the size in the header must be that of the chunk, without bytes after it
//   bzip2    HDF5's filter ends after the first stream, without an error
//
// In the other formats that both sides have (zlib, shuffle, fletcher32), the decoders take the same bytes; a gzip
// member is checked where it becomes a zlib stream (gzip_frames.h).

#include <span>

#include "base/buffer.h"
#include "filters/core/filter.h"
#include "model/variable.h"

namespace codecfs::filters {

/// The bytes at the beginning of a chunk that has_common_form() looks at, except in bzip2.
inline constexpr size_t kCommonFormHead = 64;

/// Whether chunks of this pipeline need to be looked at.
bool may_lack_common_form(std::span<const FilterStage> chain);
/// `head`: the whole chunk, or at least kCommonFormHead of its `size` bytes, of which only the latter leave several
/// streams of bzip2 unnoticed. False also if the form cannot be seen, because the stream is inside of another one.
bool has_common_form(std::span<const FilterStage> chain, const ChunkShape& chunk, Bytes head, uint64_t size);

}  // namespace codecfs::filters
