#pragma once
// The format of a source, without opening it.

#include <string>

#include "base/result.h"

namespace codecfs {

enum class SourceFormat { hdf5, zarr_directory, zarr_zip };

/// What open_source() finds at this path, by its content. A file of no known format, or one that cannot be opened,
/// counts as hdf5: the caller's next step reports the error. EINVAL for a folder of datasets.
Result<SourceFormat> source_format_of(const std::string& path);

}  // namespace codecfs
