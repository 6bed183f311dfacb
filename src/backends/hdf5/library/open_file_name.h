#pragma once
// Files that libhdf5 opens by name although we have them open: a path may lead elsewhere by the time it is opened
// again.

#include <string>

#include "base/file_io.h"

namespace codecfs::hdf5 {

/// A name under which this very file can be opened while `file` is open, whatever its path leads to.
inline std::string name_of_open(const File& file) { return fmt::format("/proc/self/fd/{}", file.fd.get()); }

}  // namespace codecfs::hdf5
