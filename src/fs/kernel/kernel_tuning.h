#pragma once
// Kernel settings that require privileges; applied if permitted.

#include <string>

namespace codecfs::fs {

/// Raises read_ahead_kb of the mount, which is 128 KiB by default, to allow larger requests; requires root. Finds the
/// mount in /proc/self/mountinfo, because a stat of our own mount point would deadlock. Must be called after the INIT
/// request was answered; does nothing, silently, if not permitted.
void raise_readahead(const std::string& mountpoint, unsigned bytes);

}  // namespace codecfs::fs
