#pragma once
// Whether one HDF5 file is a copy of another one: the check of a copy, which shares nothing with the way it is made but
// the list of stored chunks, each of which is looked up by its coordinates in both files. Under a LibraryRead.

#include <hdf5.h>

#include <cstdint>

#include "base/result.h"

namespace codecfs::hdf5 {

/// Walks both files along the links. Compares links, types, shapes, filters, the values of attributes, chunks as they
/// are stored, and what H5Dread reads. Where a filter is missing, which the log tells, only chunks as they are stored.
/// `file_bytes`: the size of the larger file. The copy may have more chunks stored, where these read the same. EIO:
/// they differ, or something cannot be read.
Result<> compare_files(hid_t from, hid_t to, uint64_t file_bytes);

}  // namespace codecfs::hdf5
