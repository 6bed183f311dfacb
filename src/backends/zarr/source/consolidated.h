#pragma once
// .zmetadata: a copy of all metadata of a store in one file, which some readers use instead of the other files
// (zarr-python's open_consolidated, xarray). codecfs never creates it, but must keep an existing one up to date.

#include <optional>
#include <string>
#include <string_view>

#include "backends/zarr/source/hierarchy.h"
#include "base/result.h"

namespace codecfs::zarr {

/// The new text of .zmetadata: the JSON of every .zgroup, .zarray and .zattrs by its key, sorted. Files that are not
/// JSON are omitted with a warning. None, with a warning, if the form of the current `text` is unknown.
///
/// For Zarr v3 the new text of the root's zarr.json: the JSON of every other zarr.json by the path of its node. None,
/// without a warning, if it has no consolidated metadata.
Result<std::optional<std::string>> renewed_consolidated(const Hierarchy& hierarchy, std::string_view text);

}  // namespace codecfs::zarr
