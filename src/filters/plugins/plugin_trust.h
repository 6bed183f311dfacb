#pragma once
// Checks which users can replace a plugin, because its code runs with all our privileges.

#include <string>

#include "base/result.h"

namespace codecfs::filters {

/// Resolves links and returns the path, which is then safe to load: only root and the effective user can change what it
/// refers to. They must own the file and all directories above it, and neither group nor other users may have write
/// permission. A parent directory with the sticky bit, such as /tmp, may be writable for all, but not the directory
/// that contains the plugin. EPERM with the offending path and the reason; ENOENT and similar if the path does not
/// exist.
///
/// Does not check the libraries that a plugin links.
Result<std::string> trusted_path(const std::string& path);

}  // namespace codecfs::filters
