#pragma once
// Which inodes the kernel may know: it need not be told of millions that nobody has looked up.

#include <cstdint>
#include <mutex>
#include <set>
#include <vector>

#include "fs/namespace/nodes.h"

namespace codecfs::fs {

/// Inodes that the kernel may know, in blocks: of all that were ever told it, so it may have forgotten some. Calls are
/// safe from all threads.
class KnownInodes {
 public:
  struct Range {
    Ino first = 0;
    uint64_t count = 0;
    bool operator==(const Range&) const = default;
  };

  void add(Ino ino);
  /// The parts of a range in which it may know any.
  [[nodiscard]] std::vector<Range> within(Range range) const;

 private:
  mutable std::mutex mutex_;
  std::set<uint64_t> blocks_;  // guarded by mutex_
  bool all_ = false;           // too many to be kept; guarded by mutex_
};

}  // namespace codecfs::fs
