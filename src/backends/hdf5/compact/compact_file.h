#pragma once
// Rewrites an HDF5 file without its unused space: libhdf5 never reuses space that was freed in an earlier session.
//
// The file is copied to a new one beside it, `.NAME.codecfs-PID-N`, which is closed, verified, synced and renamed over
// it. If this is interrupted at any point, the name refers to the complete old or the complete new file. The next
// compaction removes the temporary file of a killed one.

#include <functional>
#include <string>

#include "base/file_io.h"
#include "base/result.h"

namespace codecfs::hdf5 {

/// See compact_source(). No other thread of the process may use libhdf5 meanwhile (run_apart.h). `io` is used for all
/// changes except libhdf5's writes to the new file. EBUSY: another program has the file open. EROFS: it is marked as
/// open for writing. ENOSPC: no space for the copy. EOPNOTSUPP: some content cannot be copied exactly. EIO: it is
/// damaged. ECANCELED if `cancelled` returns true. After an error it is unchanged.
Result<std::string> compact_file(const std::string& path, FileIo& io, const std::function<bool()>& cancelled = {});

}  // namespace codecfs::hdf5
