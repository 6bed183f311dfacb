#pragma once
// Lists the members and properties of an HDF5 object by name, for traversals of whole files. All functions under a
// LibraryLock.

#include <hdf5.h>

#include <string>
#include <vector>

#include "backends/hdf5/library/handle.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "base/result.h"

namespace codecfs::hdf5 {

/// A stored link.
struct StoredLink {
  std::string name;
  LinkInfo info;
  H5T_cset_t encoding = H5T_CSET_ASCII;  // of the name
};
/// The links of a group in creation order if that is stored, else by name. EIO, ENOMEM.
Result<std::vector<StoredLink>> stored_links(hid_t group);

/// The creation properties of an object (group, dataset or committed type). EIO.
Result<Handle> creation_properties_of(hid_t object);

}  // namespace codecfs::hdf5
