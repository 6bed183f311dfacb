#pragma once
// Records which inodes the kernel may know, to avoid notifications about millions of others.

#include <cstdint>
#include <set>
#include <vector>

#include "base/mutex.h"
#include "fs/nodes/nodes.h"

namespace codecfs::fs {

/// Inodes that were ever returned to the kernel, in blocks; the kernel may have forgotten some. Thread-safe.
class KnownInodes {
 public:
  struct Range {
    Ino first = 0;
    uint64_t count = 0;
    bool operator==(const Range&) const = default;
  };

  void add(Ino ino);
  /// Whether the kernel may know it.
  [[nodiscard]] bool contains(Ino ino) const;
  /// The parts of a range that may contain known inodes.
  [[nodiscard]] std::vector<Range> within(Range range) const;

 private:
  mutable Mutex mutex_;
  std::set<uint64_t> blocks_ CODECFS_GUARDED_BY(mutex_);
  bool all_ CODECFS_GUARDED_BY(mutex_) = false;  // too many to record
};

}  // namespace codecfs::fs
