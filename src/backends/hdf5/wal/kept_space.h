#pragma once
// Preserves free space while a file is closed and reopened in libhdf5, which would otherwise lose track of it: unlinked
// datasets occupy the largest free blocks meanwhile. All functions under a LibraryLock.
//
//   KeptSpace kept;
//   kept.take(file);      // then close and reopen the file
//   kept.release(file);   // the blocks are free again
//
// At unmount the datasets stay in the file, invisible to other programs, and the next mount releases them:
// left_space.h.

#include <hdf5.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "backends/hdf5/wal/left_space.h"
#include "base/result.h"

namespace codecfs::hdf5 {

class KeptSpace {
 public:
  /// Numbers of free blocks, of raw data and of metadata each. Between two mounts: their addresses must fit into an
  /// extended attribute on all filesystems.
  static constexpr size_t kBetweenMounts = 64;
  static constexpr size_t kWithinMount = 1024;

  KeptSpace() = default;
  /// The space that an earlier mount recorded.
  explicit KeptSpace(LeftSpace left) : kept_(std::move(left)) {}

  /// Creates datasets in the largest free blocks of raw data and of metadata, at most `most` each, unless the file
  /// itself stores its free space. Blocks that no dataset can occupy are lost. EIO: a dataset that was created cannot
  /// be removed.
  Result<> take(hid_t file, size_t most);
  /// Removes the datasets; `file` is the same file, reopened. Ignores addresses that are not such datasets. EIO.
  Result<> release(hid_t file) const;

  /// Drops the datasets that are not `good(address)`.
  template <class Good>
  void check(const Good& good) {
    std::erase_if(kept_.datasets, [&](uint64_t address) { return !good(address); });
  }
  [[nodiscard]] bool empty() const { return kept_.datasets.empty(); }
  [[nodiscard]] const LeftSpace& kept() const { return kept_; }

 private:
  Result<> take_raw(hid_t file, hid_t type, uint64_t user_block, size_t most);
  Result<> take_metadata(hid_t file, hid_t type, size_t most);
  Result<> keep(hid_t dataset, bool fits, uint64_t bytes);

  LeftSpace kept_;
};

}  // namespace codecfs::hdf5
