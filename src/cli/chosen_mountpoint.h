#pragma once
// The mount point of `codecfs SOURCE`.

#include <string>

#include "base/result.h"

namespace codecfs::cli {

/// A path that does not exist yet: `NAME.mnt.zarr` beside the source, as xarray takes what ends in .zarr for a Zarr
/// store, or `NAME.mnt` for a folder of datasets. In $XDG_RUNTIME_DIR/codecfs if no directory can be made beside the
/// source, or it has a URL. NAME is the source's name without its ending. EINVAL if neither is possible, with what to
/// do; EEXIST; ENAMETOOLONG and other errors of the path.
Result<std::string> choose_mountpoint(const std::string& source);

}  // namespace codecfs::cli
