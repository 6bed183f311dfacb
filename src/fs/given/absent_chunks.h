#pragma once
// The chunks that the kernel may remember as absent, because a lookup found none: a write through another view must
// invalidate their names, and those of no others. Thread-safe.

#include <cstddef>
#include <memory>

#include "base/lru_map.h"
#include "fs/nodes/nodes.h"

namespace codecfs::fs {

class AbsentChunks {
 public:
  /// Maximum number of chunks. The kernel forgets an older one by itself, after a second.
  static constexpr size_t kMaxChunks = size_t{1} << 17;

  /// Must be called before the lookup is answered. `chunk`: its inode number in the view of the lookup.
  void add(Ino chunk) { chunks_.put(chunk, std::make_shared<const bool>(true)); }
  /// Whether the kernel may remember it; from now on it does not.
  bool take(Ino chunk) { return chunks_.take(chunk) != nullptr; }

 private:
  LruMap<Ino, bool> chunks_{kMaxChunks};
};

}  // namespace codecfs::fs
