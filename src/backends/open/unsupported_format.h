#pragma once
// Files of other formats, which codecfs does not read. Thread-safe.

#include <optional>
#include <string>
#include <string_view>

namespace codecfs {

/// What a tar archive is and what to do with it, as the texts of unsupported_start().
extern const char* const kTarArchive;

/// Whether the file begins with the header of a member of a tar archive, of any of tar's formats: with a block of 512
/// bytes that has its checksum. HDF5 files in an archive look like the archive's own content after a user block.
bool is_tar(int fd);

/// The format of a file that begins with these bytes, and what to do with it ("a GRIB file; make it a netCDF-4 file,
/// ..."), if it is one that is known and not read; null otherwise.
const char* unsupported_start(std::string_view start);
/// The same for a file with this name, which tells compressed tar archives from other compressed files.
std::optional<std::string> unsupported_start(std::string_view start, std::string_view name);

/// Why an open file is not shown as a dataset: it is of another format of scientific data (netCDF-3, HDF4, GRIB), or it
/// has the name of an HDF5 file and not its signature. Nothing for other files, and for those that are datasets.
std::optional<std::string> unsupported_format(int fd, std::string_view name);

}  // namespace codecfs
