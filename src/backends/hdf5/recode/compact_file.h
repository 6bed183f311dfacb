#pragma once
// An HDF5 file without the space that nothing uses: libhdf5 keeps what was freed in an earlier session for ever.
//
// The file is copied into a new one beside it, `.NAME.codecfs-PID-N`, which is closed, checked, synced and renamed over
// it: whenever this is cut short, the name is that of the old file or of the new one, and both are whole. What a killed
// compaction left is removed by the next one.

#include <string>

#include "base/file_io.h"
#include "base/result.h"

namespace codecfs::hdf5 {

/// See compact_source(). No other thread of the process may use libhdf5 meanwhile (run_apart.h). `io` is used for
/// everything but what libhdf5 writes into the new file. EBUSY: another program has it open. EROFS: it is marked as
/// open for writing. ENOSPC: no room for the copy. EOPNOTSUPP: something in it cannot be copied as it is. EIO: it is
/// damaged. After an error it is as it was.
Result<std::string> compact_file(const std::string& path, FileIo& io);

}  // namespace codecfs::hdf5
