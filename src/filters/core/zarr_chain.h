#pragma once
// Converts the filter pipeline of a stored chunk to one that a .zarray can describe, and back. Zarr identifies codecs
// by numcodecs' JSON, HDF5 identifies filters by ids. Most filters have a codec with the same encoded bytes, some have
// one with a different format, some have none.

#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "filters/core/filter.h"
#include "model/variable.h"

namespace codecfs::filters {

struct ZarrChain {
  std::vector<FilterStage> stages;  // each with its codec's JSON, for numcodecs to decode; none is optional
  bool same_bytes = true;           // whether chunks encoded with the given pipeline are valid chunks of this one
};

/// The programs for which a pipeline of Zarr v2 is made.
enum class ZarrReaders {
  numcodecs,  // has an lz4 of its own; no szip
  netcdf,     // also: no codec without an HDF5 filter, as lz4 of numcodecs, and with szip
};

/// Replaces the HDF5 filters in `chain` by codecs of these readers, and by those of plugins. lz4 becomes numcodecs'
/// lz4, whose format differs. If a filter has no codec, or is a codec of Zarr v3 alone, the result has no filters at
/// all. A shuffle that numcodecs cannot decode is omitted. Other codecs of a Zarr store do not change.
ZarrChain zarr_chain(std::span<const FilterStage> chain, const ChunkShape& chunk,
                     ZarrReaders readers = ZarrReaders::numcodecs);

/// As zarr_chain(), for Zarr v3, where `gzip` is the codec of deflate that all readers have: a zlib stream at the end
/// of the pipeline, as HDF5 stores it, becomes a gzip member, and `same_bytes` holds for what gzip_of_zlib() returns.
/// Where Zarr v3 cannot represent the pipeline, the result has no filters.
struct Zarr3Chain : ZarrChain {
  std::optional<uint64_t> gzip_size;  // bytes that the member decodes to; none: stored bytes are chunks as they are
};
Zarr3Chain zarr3_chain(std::span<const FilterStage> chain, const ChunkShape& chunk, const Json& object_codec);

/// Whether every reader of Zarr v3 has these codecs: gzip, zstd, blosc and crc32c.
bool is_portable(std::span<const FilterStage> codecs);
/// A pipeline of such codecs for chunks that are stored with another one: blosc if it shuffles, else zstd if it
/// compresses, and crc32c if it has a checksum.
Zarr3Chain portable_chain(std::span<const FilterStage> chain, const ChunkShape& chunk);

/// The HDF5 or numcodecs filters for a pipeline of codecs of Zarr v3: without the change that zarr3_chain() makes,
/// where HDF5 stores it.
std::vector<FilterStage> with_zlib_for_gzip(std::vector<FilterStage> codecs, uint64_t item_size);

/// Codecs of Zarr v3 as numcodecs has always written them: without the members that its later releases added, where
/// these say what is so without them.
std::vector<FilterStage> for_numcodecs(std::vector<FilterStage> codecs, uint64_t item_size);
/// As for_numcodecs(), for a .zarray, without any "typesize" of blosc: numcodecs before 0.16 and tensorstore refuse it
/// there, and decoders find it in the header of each frame.
std::vector<FilterStage> for_zarr2(std::vector<FilterStage> codecs, uint64_t item_size);

/// The index of the first shuffle that numcodecs cannot decode: it requires whole elements, which text and the output
/// of a compressor or checksum are not. HDF5 leaves trailing bytes unchanged.
std::optional<size_t> shuffle_of_parts(std::span<const FilterStage> chain, const ChunkShape& chunk);

/// The HDF5 filters for a pipeline of codecs, one for each. EINVAL with the codec for which HDF5 has no filter.
struct Hdf5Chain {
  std::vector<FilterStage> stages;
  /// Whether zarr_chain() of them is this pipeline again. Not for codecs that netCDF-C has and numcodecs lacks (szip),
  /// an order that numcodecs cannot decode, and gzip in the place of zlib: a client decodes what it wrote itself only
  /// if it is shown the codecs that it wrote.
  bool is_shown_so = true;
};
Result<Hdf5Chain> hdf5_chain(std::span<const FilterStage> codecs, const ChunkShape& chunk);
/// Leaves out the codecs for which HDF5 has no filter. EINVAL with the first of them.
Result<> leave_out_for_hdf5(Zarr3Chain& chain, const ChunkShape& chunk);

}  // namespace codecfs::filters
