#pragma once
// The format of a source, without opening it.

#include <string>
#include <string_view>

#include "base/result.h"

namespace codecfs {

enum class SourceFormat { hdf5, zarr_directory, zarr_zip, object_store };

/// What open_source() finds at this path, by its content; object_store: of any URL, without a request. A file of no
/// known format, or one that cannot be opened, counts as hdf5: the caller's next step reports the error. EINVAL for a
/// folder of datasets.
Result<SourceFormat> source_format_of(const std::string& path);
/// Whether a name ends as those of HDF5 and netCDF files do.
bool has_hdf5_name(std::string_view name);

}  // namespace codecfs
