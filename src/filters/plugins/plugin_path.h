#pragma once
// The search path for filter plugins.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace codecfs::filters {

/// The directories, absolute and without duplicates, in order of precedence:
///
///   `option`         -o plugin_path=, split at ':'
///   `environment`    HDF5_PLUGIN_PATH, split at ':'; null: not set
///   defaults         our own directory of the build (PLUGIN_INSTALL_DIR), then that of libhdf5. NCZarr searches the
///                    default last, also where the environment names directories; HDF5 does only where it is not set.
///                    None if the environment is set and empty, so that they can be excluded.
std::vector<std::string> plugin_directories(std::string_view option, const char* environment);

/// The files in a directory that may be plugins (lib*.so*), sorted by name; a file with several links is listed once.
/// ENOENT, ENOTDIR, EACCES.
Result<std::vector<std::string>> plugin_files(const std::string& directory);

}  // namespace codecfs::filters
