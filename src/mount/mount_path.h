#pragma once
// The place of a mount, found without a request to the filesystem that is mounted there: its daemon may be dead or not
// answer.

#include <string>

#include "base/result.h"

namespace codecfs::mount {

/// The absolute path of a mount point, without symbolic links, as the mount table has it. Only a path inside a mount is
/// a request to it. ENOENT, ENOTCONN and others.
Result<std::string> path_of_mount(std::string path);

/// `path` without "/" and "/." at its end, which would have to be looked up in the mount.
std::string without_end(std::string path);

}  // namespace codecfs::mount
