#pragma once
// Copies the whole content of an HDF5 file to another: groups, datasets, committed types, attributes and links, in
// creation order if the file stores that. All functions under a LibraryRead.

#include <hdf5.h>

#include <cstdint>

#include "backends/hdf5/library/handle.h"
#include "base/result.h"

namespace codecfs::hdf5 {

/// The creation properties of a file and of its root group. EIO, EOPNOTSUPP.
Result<Handle> creation_properties(hid_t file);
/// Access properties for the same format version or a newer one.
Result<Handle> access_properties(hid_t file);

/// Copies everything that is reachable by hard links into an empty file. `file_bytes` is the size of `from`. After an
/// error the copy is unusable. EIO: damaged; EOPNOTSUPP: something cannot be copied exactly.
Result<> copy_objects(hid_t from, hid_t to, uint64_t file_bytes);

}  // namespace codecfs::hdf5
