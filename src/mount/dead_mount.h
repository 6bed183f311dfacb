#pragma once
// What a daemon leaves behind that was killed: a mount whose every call is ENOTCONN. The next mount takes it away, so
// that nobody has to.

#include <string>

#include "base/result.h"

namespace codecfs::mount {

/// Detaches the mounts of codecfs at a path whose daemons are dead; clients may still have files open in them, which
/// stay as dead as they are. Nothing where the path is anything else, or does not exist. ENOTCONN with what to do,
/// where the dead mount is another program's, or another user's.
Result<> detach_dead_mounts(const std::string& mountpoint);

}  // namespace codecfs::mount
