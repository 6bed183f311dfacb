#pragma once
// Reads mounts from the kernel without accessing the mounted filesystems: a stat() of our own mount point would
// deadlock.

#include <optional>
#include <string>
#include <vector>

namespace codecfs {

/// A line of /proc/self/mountinfo.
struct MountEntry {
  int id = 0;
  std::string device;  // "major:minor"; the minor number of a FUSE mount is that of its connection
  std::string path;
  std::string type;          // "fuse.codecfs"
  std::string source = {};   // of our mounts: the absolute path of the dataset
  std::string options = {};  // of the mount: "ro,nosuid,nodev,relatime"
};

/// All mounts, in the order in which they were made. Empty if /proc/self/mountinfo cannot be read.
std::vector<MountEntry> mount_table();
/// The most recent mount at this path.
std::optional<MountEntry> mount_at(const std::string& path);

}  // namespace codecfs
