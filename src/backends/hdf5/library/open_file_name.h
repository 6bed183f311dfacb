#pragma once
// Lets libhdf5 open by name a file that we already have open, because its path may refer to another file by then.

#include <string>

#include "base/file_io.h"

namespace codecfs::hdf5 {

/// A name that opens this file while `file` is open, whatever its path refers to.
inline std::string name_of_open(const File& file) { return fmt::format("/proc/self/fd/{}", file.fd.get()); }

}  // namespace codecfs::hdf5
