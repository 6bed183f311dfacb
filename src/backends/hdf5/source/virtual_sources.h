#pragma once
// The sources of virtual datasets. libhdf5 reads the fill value in place of those that it does not find.

#include <hdf5.h>

#include <string>
#include <vector>

#include "backends/hdf5/source/source_file.h"
#include "base/result.h"

namespace codecfs::hdf5 {

/// The sources of a virtual dataset that libhdf5 would not find: "other.h5", "/v in other.h5". At most a thousand;
/// without those with a pattern in their name, of which any number may exist. Under a LibraryRead. EIO; kNewerFormat if
/// libhdf5 finds one and cannot read it, as a newer HDF5 wrote it.
Result<std::vector<std::string>> missing_virtual_sources(const SourceFile& file, hid_t dataset);

}  // namespace codecfs::hdf5
