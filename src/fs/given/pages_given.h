#pragma once
// Of which files the kernel has all content in its page cache, as far as is known: what was given to it, until it asks
// for a part of it again. Read-ahead leaves these files alone, so that a second reader costs no second decode.

#include <bitset>
#include <cstdint>
#include <deque>
#include <unordered_map>

#include "base/mutex.h"
#include "fs/nodes/nodes.h"

namespace codecfs::fs {

/// Thread-safe. `changes`: MountContext::changes(), from before the content was made; all that was given before a
/// change is forgotten.
class PagesGiven {
 public:
  /// The kernel has been given all of the file.
  void given(Ino ino, uint64_t changes);
  [[nodiscard]] bool has(Ino ino, uint64_t changes);
  /// The kernel drops all pages of the file.
  void forget(Ino ino);
  /// The kernel requests a part of the file. If it was given long before, the kernel has reclaimed pages, of which
  /// other files may have been: everything is forgotten. Else the request was on its way when the file was given.
  void requested(Ino ino);

 private:
  static constexpr uint64_t kInBlock = 512;  // files
  using Block = std::bitset<kInBlock>;       // of files with consecutive inode numbers

  [[nodiscard]] bool has(Ino ino) const CODECFS_REQUIRES(mutex_);
  void clear() CODECFS_REQUIRES(mutex_);

  Mutex mutex_;
  uint64_t changes_ CODECFS_GUARDED_BY(mutex_) = 0;
  std::unordered_map<uint64_t, Block> blocks_ CODECFS_GUARDED_BY(mutex_);
  std::deque<Ino> latest_ CODECFS_GUARDED_BY(mutex_);
};

}  // namespace codecfs::fs
