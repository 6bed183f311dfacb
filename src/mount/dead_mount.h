#pragma once
// Removes the mount that a killed daemon leaves behind, in which every call fails with ENOTCONN, so that the next mount
// needs no manual cleanup.

#include <string>

#include "base/result.h"

namespace codecfs::mount {

/// Detaches the codecfs mounts at a path whose daemons are dead; files that clients still have open there stay
/// unusable. Does nothing if the path is not such a mount or does not exist. ENOTCONN with what to do if the dead mount
/// belongs to another program or user.
Result<> detach_dead_mounts(const std::string& mountpoint);

}  // namespace codecfs::mount
