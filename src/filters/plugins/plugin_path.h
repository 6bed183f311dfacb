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
///   `environment`    HDF5_PLUGIN_PATH, split at ':'; set and empty it means none. Where it is null (not set): our own
///                    directory of the build (PLUGIN_INSTALL_DIR), then that of libhdf5.
std::vector<std::string> plugin_directories(std::string_view option, const char* environment);

/// The files in a directory that may be plugins (lib*.so*), sorted by name; a file with several links is listed once.
/// ENOENT, ENOTDIR, EACCES.
Result<std::vector<std::string>> plugin_files(const std::string& directory);

}  // namespace codecfs::filters
