#pragma once

#include <string_view>

namespace codecfs {

/// Whether a name ends as those of HDF5 and netCDF files do.
bool has_hdf5_name(std::string_view name);

}  // namespace codecfs
