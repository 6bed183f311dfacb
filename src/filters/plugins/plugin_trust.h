#pragma once
// Who could have put a plugin where it is: its code runs with all that we may do.

#include <string>

#include "base/result.h"

namespace codecfs::filters {

/// The path without links, to be loaded by that name, where nobody but root and the user that we run as can change what
/// it leads to: these own it and all directories above it, and neither their group nor others can write to them.
/// (Others may write to a directory farther above that has the sticky bit, as /tmp; the one that holds a plugin must
/// not be so.) EPERM with what is wrong, naming the place; ENOENT and the like where there is nothing.
///
/// Libraries that a plugin is linked with are the loader's business, and not looked at.
Result<std::string> trusted_path(const std::string& path);

}  // namespace codecfs::filters
