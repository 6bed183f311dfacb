#pragma once
// .zmetadata: all metadata of a store in one file, which some readers take in place of the others (zarr-python's
// open_consolidated, xarray). It is never made here, but where somebody else has, it must not tell what was before.

#include "backends/zarr/hierarchy.h"
#include "base/result.h"
#include "model/json.h"

namespace codecfs::zarr {

/// The JSON of every .zgroup, .zarray and .zattrs by its key, sorted. What is no JSON is left out, with a warning.
Result<Json> collect_metadata(const Hierarchy& hierarchy);

}  // namespace codecfs::zarr
