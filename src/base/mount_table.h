#pragma once
// What the kernel tells of mounts without asking their filesystems: a stat of our own mount would wait for ourselves.

#include <optional>
#include <string>
#include <vector>

namespace codecfs {

/// A line of /proc/self/mountinfo.
struct MountEntry {
  int id = 0;
  std::string device;  // "major:minor"; the minor number of a FUSE mount is that of its connection
  std::string path;
  std::string type;  // "fuse.codecfs"
};

/// In the order in which they were mounted. Empty where the kernel does not tell.
std::vector<MountEntry> mount_table();
/// The last one that was mounted there.
std::optional<MountEntry> mount_at(const std::string& path);

}  // namespace codecfs
