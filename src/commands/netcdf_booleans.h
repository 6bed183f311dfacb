#pragma once
// Booleans for programs of netCDF, which has none: netCDF-C leaves out a variable with the enumeration that HDF5 files
// of h5py have for them, and refuses an NCZarr store with one. xarray writes |i1 with the attribute "dtype": "bool",
// and reads it as booleans (its documentation, "Encoding").

#include "model/variable.h"

namespace codecfs::commands {

// Each function returns the variable itself if it has no booleans, or if another attribute has the name.

/// Describes an array of booleans in xarray's form; its chunks are the same. A fill value is no longer a mark of
/// missing data, as xarray makes true of these.
VariablePtr number_booleans(VariablePtr variable);

/// As number_booleans(), but without a fill value, so that all chunks are copied: xarray takes the one of an NCZarr
/// array for a mark of missing data.
VariablePtr number_booleans_for_nczarr(VariablePtr variable);

/// For HDF5 files with dimensions that are not named as netCDF: booleans stay what h5py has for them, and xarray's
/// attribute tells its readers by way of newer netCDF-C, which find bytes, that they are booleans.
VariablePtr mark_booleans(VariablePtr variable);
/// Takes the attribute from booleans, where it says nothing new.
VariablePtr unmark_booleans(VariablePtr variable);

/// Whether the variable has xarray's form.
[[nodiscard]] bool has_numbered_booleans(const Variable& variable);

}  // namespace codecfs::commands
