#pragma once
// What an object of an HDF5 file holds, by name, for those who go through a whole file. All functions under a
// LibraryLock.

#include <hdf5.h>

#include <string>
#include <vector>

#include "backends/hdf5/library/handle.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "base/result.h"

namespace codecfs::hdf5 {

/// A link as it is stored.
struct StoredLink {
  std::string name;
  LinkInfo info;
  H5T_cset_t encoding = H5T_CSET_ASCII;  // of the name
};
/// The links of a group in creation order where it is kept, else by name. EIO, ENOMEM.
Result<std::vector<StoredLink>> stored_links(hid_t group);

/// The properties that an object (group, dataset or committed type) was created with. EIO.
Result<Handle> creation_properties_of(hid_t object);

}  // namespace codecfs::hdf5
