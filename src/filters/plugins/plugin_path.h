#pragma once
// Where filter plugins are looked for.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace codecfs::filters {

/// The directories, absolute, each once, the first ones first:
///
///   `option`         -o plugin_path=, split at ':'
///   `environment`    HDF5_PLUGIN_PATH, split at ':'; set and empty it means none. Where it is null (not set): our own
///                    directory of the build (PLUGIN_INSTALL_DIR), then that of libhdf5.
std::vector<std::string> plugin_directories(std::string_view option, const char* environment);

/// The files in a directory that may hold a plugin, by name: those called lib*.so*, each file once whatever links lead
/// to it. ENOENT, ENOTDIR, EACCES.
Result<std::vector<std::string>> plugin_files(const std::string& directory);

}  // namespace codecfs::filters
