#pragma once
// The attributes that files have in common: owner, permissions and times, from the source and this mount. Thread-safe.

#include <sys/stat.h>

#include "fs/context/mount_context.h"

namespace codecfs::fs {

/// Blocks of a file of this size, as st_blocks counts them.
inline uint64_t blocks_of(uint64_t bytes) { return (bytes + 511) / 512; }

/// The error of an absent name. No reason: it is an answer, not a failure.
inline std::unexpected<Error> not_there() { return std::unexpected(Error{ENOENT, {}}); }

class InodeAttributes {
 public:
  explicit InodeAttributes(MountContext& mount) : mount_(mount) {}

  /// The attributes of a file or directory of the dataset. `type`: S_IFREG, S_IFDIR or S_IFLNK; `size`: bytes.
  [[nodiscard]] struct stat make(const Node& node, Ino ino, mode_t type, uint64_t size) const;
  /// ESTALE.
  Result<struct stat> of_scratch(Ino ino) const;
  /// The attributes of a folder, or of a file in it. ESTALE if it is something else now.
  Result<struct stat> of_plain(const Node& node) const;

 private:
  MountContext& mount_;
};

}  // namespace codecfs::fs
