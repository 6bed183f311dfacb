#pragma once
// HDF5 and netCDF-4 files as a Source. See backends/api/source.h for the interface.

#include <cstdint>
#include <memory>
#include <string>

#include "backends/api/source.h"
#include "backends/api/source_check.h"
#include "base/file_io.h"
#include "base/result.h"

namespace codecfs {

/// Whether the file has HDF5's signature, at its start or after a user block of less than `within` bytes.
bool looks_like_hdf5(int fd, uint64_t within = UINT64_MAX);

/// Opens an HDF5 file. EIO with libhdf5's reason if it is damaged. A file that another process writes, that a crashed
/// writer left marked as open, or that is truncated is opened with a warning. All changes of the file go through `io`,
/// which must outlive the Source. `latest`: Hdf5Options::latest.
Result<std::unique_ptr<Source>> open_hdf5(const std::string& path, bool may_write = false, FileIo& io = real_file_io(),
                                          bool latest = false);

/// See check_source() and recover_source() of backends/open.
Result<SourceCheck> check_hdf5_log(const std::string& path);
Result<std::string> recover_hdf5_log(const std::string& path);

/// See SourceOpener::create().
Result<> create_hdf5(const std::string& path, bool as_netcdf = true, bool latest = false);

}  // namespace codecfs
