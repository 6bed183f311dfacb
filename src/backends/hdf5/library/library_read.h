#pragma once
// The locks for H5Dread, which calls filters itself, including those of plugins: needed for virtual datasets, and for
// filters that only libhdf5 has.

#include "backends/hdf5/library/library_lock.h"
#include "filters/plugins/plugins.h"

namespace codecfs::hdf5 {

class LibraryRead {
 public:
  LibraryRead() = default;

 private:
  filters::PluginsHeld plugins_;  // locked before the library: a thread that runs a plugin may wait for the library
  LibraryLock library_;
};

}  // namespace codecfs::hdf5
