#pragma once
// Zarr v3 has a fill value for each array, v2 only where it marks missing data, as xarray masks the elements that equal
// it. A copy of an HDF5 file in v2 notes the others (NotedTypes).

#include "model/variable.h"

namespace codecfs::commands {

/// For conversion of v2 into v3: the variable with the fill value that kStoredTypes notes, without the note; itself if
/// there is no note, or it has a fill value.
VariablePtr take_fill(VariablePtr variable);

}  // namespace codecfs::commands
