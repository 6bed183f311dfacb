#pragma once
// The right to call H5Dread, which runs filters by itself, those of plugins too: virtual datasets, and the filters that
// only libhdf5 has.

#include "backends/hdf5/library/library_lock.h"
#include "filters/plugins/plugins.h"

namespace codecfs::hdf5 {

class LibraryRead {
 public:
  LibraryRead() = default;

 private:
  filters::PluginsHeld plugins_;  // before the library's: a thread that runs a plugin may wait for the library
  LibraryLock library_;
};

}  // namespace codecfs::hdf5
