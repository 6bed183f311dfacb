#pragma once
// The right to call H5Dread, which runs filters by itself, those of plugins too: virtual datasets, and the filters that
// only libhdf5 has.

#include <mutex>
#include <shared_mutex>

#include "backends/hdf5/library_lock.h"

namespace codecfs::hdf5 {

class LibraryRead {
 public:
  /// Also lets libhdf5 know, once, the directories in which we look for plugins.
  LibraryRead();

 private:
  std::unique_lock<std::shared_mutex> plugins_;  // before the library's: who runs a plugin may wait for the library
  LibraryLock library_;
};

}  // namespace codecfs::hdf5
