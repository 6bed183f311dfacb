#pragma once
// Free space of a file kept over closing it in libhdf5 and opening it again, which forgets it otherwise: datasets
// without a name take the largest holes meanwhile. All functions under a LibraryLock.
//
//   KeptSpace kept;
//   kept.take(file);      // then the file is closed and opened again
//   kept.release(file);   // the holes are known to be free
//
// At the unmount they stay in the file, where no program sees them, and the next mount releases them: left_space.h.

#include <hdf5.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "backends/hdf5/recode/left_space.h"
#include "base/result.h"

namespace codecfs::hdf5 {

class KeptSpace {
 public:
  KeptSpace() = default;
  /// As an earlier mount says.
  explicit KeptSpace(LeftSpace left) : kept_(std::move(left)) {}

  /// Makes the datasets, unless the file itself keeps its free space. What no dataset can take is forgotten. EIO: one
  /// that was made cannot be removed.
  Result<> take(hid_t file);
  /// Removes them; `file` is the same file opened again. Leaves alone whatever is no such dataset. EIO.
  Result<> release(hid_t file) const;

  /// Gives up those that are not `good(address)`.
  template <class Good>
  void check(const Good& good) {
    std::erase_if(kept_.datasets, [&](uint64_t address) { return !good(address); });
  }
  [[nodiscard]] bool empty() const { return kept_.datasets.empty(); }
  [[nodiscard]] const LeftSpace& kept() const { return kept_; }

 private:
  LeftSpace kept_;
};

}  // namespace codecfs::hdf5
