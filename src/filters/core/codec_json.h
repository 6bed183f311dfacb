#pragma once
// The two text forms of a filter pipeline: the HDF5 filter spec ("2,4|1,5") and Zarr's codec JSON.

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/json.h"
#include "model/variable.h"

namespace codecfs::filters {

/// `_Filter`: numeric ids and unsigned parameters, "" for an empty pipeline; of szip in a file the two parameters that
/// ncdump shows. ENODATA with a reason if a codec has no HDF5 id.
Result<std::string> print_filter_spec(std::span<const FilterStage> chain);

/// `_FilterStored`: the same for the pipeline of an HDF5 dataset with the flags of its filters, in h5repack's form:
/// "UD=307,1,1,9|UD=4,0,4,141,32,32,64". "" for an empty pipeline, and for one that says no flags.
std::string print_stored_spec(std::span<const FilterStage> chain);

/// `_Codecs`: the JSON array, in the order of encoding. A filter without a codec is printed as {"id": "hdf5:32000",
/// "name": "lzf", "parameters": [4, 261, 160]}.
Json print_codecs(std::span<const FilterStage> chain);

/// The codecs of a .zarray, where the last one is separate: `compressor` (object or null), `filters` (array of the
/// preceding ones, or null). Source: the NCZarr document, "Supporting Filter Chains".
struct ZarrCodecs {
  Json compressor;
  Json filters;
};
ZarrCodecs print_zarr_codecs(std::span<const FilterStage> chain);

/// The pipeline of a .zarray: `filters` (array or null) in their order, then `compressor` (object or null). Every stage
/// keeps its JSON; stages whose codec has an HDF5 id also get id and parameters (item_size: bytes of an element).
/// Unknown codecs are kept, and fail when a chunk is decoded. EINVAL for JSON of the wrong type.
Result<std::vector<FilterStage>> parse_zarr_codecs(const Json& compressor, const Json& filters, uint64_t item_size);

/// The "id" in the codec's JSON; empty if there is none. Valid as long as the stage.
std::string_view codec_id(const FilterStage& stage);

/// "zlib 1.2.13 (libdeflate 1.14), zstd 1.5.4, ...": the built-in codecs with their versions, for --version.
std::string codec_versions();

}  // namespace codecfs::filters
