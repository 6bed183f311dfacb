#pragma once
// Files that libhdf5 opens by name although we have them open: a path may lead elsewhere by the time it is opened again.

#include <fcntl.h>
#include <sys/stat.h>

#include <string>

#include "base/file_io.h"
#include "base/result.h"

namespace codecfs::hdf5 {

/// A name under which this very file can be opened while `file` is open, whatever its path leads to.
inline std::string name_of_open(const File& file) { return fmt::format("/proc/self/fd/{}", file.fd.get()); }

/// Whether a name in a directory still leads to this file. ESTALE.
inline Result<> check_name(const File& directory, const std::string& name, const File& file) {
  struct stat here{};
  struct stat there{};
  if (::fstat(file.fd.get(), &here) != 0) return fail_errno(errno, "{}", file.path);
  if (::fstatat(directory.fd.get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0 || here.st_dev != there.st_dev ||
      here.st_ino != there.st_ino)
    return fail(ESTALE, "{}: was replaced meanwhile; try again", file.path);
  return {};
}

}  // namespace codecfs::hdf5
