#pragma once
// Preserves the free space of a source between two mounts. libhdf5 loses track of it when it closes most files, so
// unlinked datasets occupy it (kept_space.h), and an extended attribute of the source lists them:
//
//   1 SIZE MTIME HEAD BYTES ADDRESS...
//
// in hexadecimal digits, separated by spaces: the format's version; size, mtime and checksum of the head of the source
// after its last write (SourceIdentity without device and inode, which change with a copy); the free bytes; the address
// of each dataset. An attribute that describes another state of the source is ignored.
//
// The attribute is removed, and the removal synced, before anything that it lists changes.

#include <cstdint>
#include <vector>

#include "backends/hdf5/wal/write_log_format.h"
#include "base/file_io.h"

namespace codecfs::hdf5 {

inline constexpr char kLeftSpaceMark[] = "user.codecfs.free";

struct LeftSpace {
  uint64_t bytes = 0;
  std::vector<uint64_t> datasets;  // their addresses
};

/// Empty if the attribute is missing, damaged, or of another state than `now`. The caller must verify the addresses.
LeftSpace read_left_space(const File& source, const SourceIdentity& now);
/// Durable when the source is synced. The error of the filesystem.
Result<> record_left_space(FileIo& io, const File& source, const SourceIdentity& now, const LeftSpace& left);
/// Removes the attribute durably if there is one.
Result<> remove_left_space(FileIo& io, const File& source);

}  // namespace codecfs::hdf5
