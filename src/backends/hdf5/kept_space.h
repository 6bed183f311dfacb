#pragma once
// Free space of a file kept over closing it in libhdf5 and opening it again, which forgets it otherwise: datasets
// without a name take the largest holes meanwhile. All functions under a LibraryLock.
//
//   KeptSpace kept;
//   kept.take(file);             // then the file is closed and opened again
//   kept.release(file);   // the holes are known to be free

#include <hdf5.h>

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace codecfs::hdf5 {

class KeptSpace {
 public:
  /// Makes the datasets. What no dataset can take is forgotten, as before. EIO: one that was made cannot be removed.
  Result<> take(hid_t file);
  /// Removes them; `file` is the same file opened again. EIO.
  Result<> release(hid_t file);

 private:
  std::vector<uint64_t> datasets_;  // their addresses
};

}  // namespace codecfs::hdf5
