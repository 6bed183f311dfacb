#pragma once
// A Zarr v2 store in a directory or in a zip archive, NCZarr's included.

#include <memory>
#include <string>

#include "backends/api/source.h"
#include "base/file_io.h"
#include "base/result.h"

namespace codecfs {

/// Opens the store in a directory. EINVAL where it is none. All that changes it goes through `io`, which outlives it.
Result<std::unique_ptr<Source>> open_zarr(const std::string& path, bool may_write = false, FileIo& io = real_file_io());

/// The same for the store in a zip archive; errors of ZipArchive::open() too.
Result<std::unique_ptr<Source>> open_zarr_zip(const std::string& path, bool may_write = false,
                                              FileIo& io = real_file_io());

/// See create_source() and compact_source() of source.h.
Result<> create_zarr(const std::string& path);
Result<> create_zarr_zip(const std::string& path);
Result<std::string> compact_zarr_zip(const std::string& path);

/// Whether a directory holds a Zarr v2 group or array.
bool looks_like_zarr(int directory_fd);

}  // namespace codecfs
