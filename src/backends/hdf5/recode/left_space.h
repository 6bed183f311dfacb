#pragma once
// Free space of a source between two mounts. libhdf5 forgets it when it closes most files, so datasets without a name
// occupy it meanwhile (kept_space.h), and an extended attribute of the source tells where they are:
//
//   1 SIZE MTIME HEAD BYTES ADDRESS...
//
// in hexadecimal digits, separated by spaces: the format's version; size, mtime and checksum of the head of the source
// as its last writer left it (SourceIdentity without device and inode, which change with a copy); the bytes that are
// free; the address of each dataset. An attribute that describes another state of the source is worth nothing.
//
// The attribute is removed, and that is synced, before anything that it names changes.

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

/// Empty where the attribute is missing, damaged, or of another state than `now`. What it says is not to be trusted.
LeftSpace read_left_space(const File& source, const SourceIdentity& now);
/// Durable when the source is synced. The error of the filesystem.
Result<> note_left_space(FileIo& io, const File& source, const SourceIdentity& now, const LeftSpace& left);
/// Removes the attribute durably where there is one.
Result<> remove_left_space(FileIo& io, const File& source);

}  // namespace codecfs::hdf5
