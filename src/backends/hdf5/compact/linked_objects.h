#pragma once
// The objects of an HDF5 file to which hard links lead. Under a LibraryRead.

#include <hdf5.h>

#include <cstdint>
#include <string>
#include <unordered_map>

#include "base/result.h"

namespace codecfs::hdf5 {

/// By address, with one of their paths. What has been removed may still have an address in a reference, where anything
/// may be now. EIO.
Result<std::unordered_map<uint64_t, std::string>> linked_objects(hid_t file);

}  // namespace codecfs::hdf5
