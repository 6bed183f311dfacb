#pragma once
// The processes that keep a mount busy, and the mount namespaces that have a copy of it.

#include <cstddef>
#include <string>

namespace codecfs::mount {

/// "4711 (vim: an open file), 4712 (bash: its current directory)": processes with an open file, a mapping, a current or
/// a root directory at or below this absolute path, at most `most`, and whether there are more. Reads only /proc, not
/// the mount. Of the processes of other users only root sees these. Empty if there are none.
std::string processes_using(const std::string& mountpoint, size_t most = 10);

/// Where a filesystem is mounted, as "at /other" or "in the mount namespace of 4711 (bash), 4712 (sleep) and more":
/// `device` is that of its MountEntry. Asks /proc only. Empty if it is not mounted, or only in mount namespaces without
/// processes that can be seen.
std::string other_mounts_of(const std::string& device);

}  // namespace codecfs::mount
