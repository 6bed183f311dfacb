#pragma once
// Verifies that one HDF5 file is a copy of another. Shares no code with the copying, except for the list of stored
// chunks, each of which is looked up by its coordinates in both files. Under a LibraryRead.

#include <hdf5.h>

#include <cstdint>

#include "base/result.h"

namespace codecfs::hdf5 {

/// Walks both files along the links. Compares links, types, shapes, filters, attribute values and encoded chunks; and
/// what H5Dread returns of the first chunk of each dataset, and of all data that is not chunked or not stored as the
/// same bytes. If a filter is missing, compares only the encoded chunks and logs that. `file_bytes`: the size of the
/// larger file. The copy may have more chunks allocated if these read the same. EIO: the files differ, or something
/// cannot be read.
Result<> compare_files(hid_t from, hid_t to, uint64_t file_bytes);

}  // namespace codecfs::hdf5
