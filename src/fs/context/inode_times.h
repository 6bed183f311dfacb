#pragma once
// Access and modification times that were set or changed in this mount. No format stores times per chunk, so they exist
// in memory only; an inode without an entry has the times of its source. Thread-safe.

#include <sys/stat.h>

#include <cstddef>
#include <ctime>
#include <optional>

#include "base/lru_map.h"
#include "fs/nodes/nodes.h"

namespace codecfs::fs {

class InodeTimes {
 public:
  struct Times {
    std::optional<timespec> accessed;
    std::optional<timespec> modified;
  };
  /// Maximum number of inodes with times (about 100 bytes each); beyond it the least recently used ones are dropped.
  static constexpr size_t kMaxInodes = size_t{1} << 17;

  /// Sets the times that are given.
  void set(Ino ino, std::optional<timespec> accessed, std::optional<timespec> modified);
  /// Overwrites the times in `status` with those of `status.st_ino`.
  void apply(struct stat& status) const;
  /// Removes and returns the times of an inode, for the inode that replaces it.
  std::optional<Times> take(Ino ino);

 private:
  mutable LruMap<Ino, Times> times_{kMaxInodes};
};

}  // namespace codecfs::fs
