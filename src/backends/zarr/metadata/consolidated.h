#pragma once
// .zmetadata: all metadata of a store in one file, which some readers take in place of the others (zarr-python's
// open_consolidated, xarray). It is never made here, but where somebody else has, it must not tell what was before.

#include <optional>
#include <string>
#include <string_view>

#include "backends/zarr/source/hierarchy.h"
#include "base/result.h"

namespace codecfs::zarr {

/// The text of .zmetadata made anew: the JSON of every .zgroup, .zarray and .zattrs by its key, sorted. What is no JSON
/// is left out, with a warning. None, with a warning, where `text`, which it has now, is of a form that is not known
/// here.
Result<std::optional<std::string>> renewed_consolidated(const Hierarchy& hierarchy, std::string_view text);

}  // namespace codecfs::zarr
