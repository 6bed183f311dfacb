#pragma once
// Files of other formats, which codecfs does not read. Thread-safe.

#include <optional>
#include <string>
#include <string_view>

namespace codecfs {

/// The format of a file that begins with these bytes, and what to do with it ("a GRIB file; make it a netCDF-4 file,
/// ..."), if it is one that is known and not read; null otherwise.
const char* unsupported_start(std::string_view start);

/// Why an open file is not shown as a dataset: it is of another format of scientific data (netCDF-3, HDF4, GRIB), or it
/// has the name of an HDF5 file and not its signature. Nothing for other files, and for those that are datasets.
std::optional<std::string> unsupported_format(int fd, std::string_view name);

}  // namespace codecfs
