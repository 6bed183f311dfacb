#pragma once
// Everything in one HDF5 file, made anew in another: groups, datasets, committed types, attributes and links, in the
// order in which they were made where the file keeps that. All functions under a LibraryRead.

#include <hdf5.h>

#include <cstdint>

#include "backends/hdf5/library/handle.h"
#include "base/result.h"

namespace codecfs::hdf5 {

/// Properties to create a file with that is as this one: those of the file and of its root group. EIO, EOPNOTSUPP.
Result<Handle> creation_properties(hid_t file);
/// The same format or a newer one, as access properties.
Result<Handle> access_properties(hid_t file);

/// Copies everything that a path of hard links leads to into a file that is empty. `file_bytes` is the size of `from`.
/// Where it fails, the copy is of no use. EIO: damaged; EOPNOTSUPP: something cannot be copied as it is.
Result<> copy_objects(hid_t from, hid_t to, uint64_t file_bytes);

}  // namespace codecfs::hdf5
