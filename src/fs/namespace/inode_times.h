#pragma once
// Access and modification times that were set or that followed from a change in this mount. No format stores times per
// chunk, so they live in memory; an inode without an entry has the times of its source. All functions are safe from all
// threads.

#include <sys/stat.h>

#include <ctime>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "fs/namespace/nodes.h"

namespace codecfs::fs {

class InodeTimes {
 public:
  struct Times {
    std::optional<timespec> accessed;
    std::optional<timespec> modified;
  };
  /// Times are kept of this many inodes; then those that were set the longest time ago are dropped (about 100 bytes
  /// each).
  static constexpr size_t kMaxInodes = size_t{1} << 17;

  /// Sets what is given.
  void set(Ino ino, std::optional<timespec> accessed, std::optional<timespec> modified);
  /// Overwrites the times of `status`, which is that of `status.st_ino`.
  void apply(struct stat& status) const;
  /// Removes and returns the times of an inode, for the inode that takes its place.
  std::optional<Times> take(Ino ino);

 private:
  using Item = std::pair<Ino, Times>;
  mutable std::mutex mutex_;
  std::list<Item> items_;                                   // guarded by mutex_; the latest first
  std::unordered_map<Ino, std::list<Item>::iterator> map_;  // guarded by mutex_
};

}  // namespace codecfs::fs
