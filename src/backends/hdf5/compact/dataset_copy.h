#pragma once
// Copies datasets to another HDF5 file with everything except their names and attributes. Encoded chunks are copied
// without decoding if their bytes do not depend on the file. All functions under a LibraryRead.

#include <hdf5.h>

#include <cstdint>

#include "backends/hdf5/compact/placeholder_filters.h"
#include "backends/hdf5/compact/reference_map.h"
#include "backends/hdf5/library/handle.h"
#include "base/result.h"

namespace codecfs::hdf5 {

/// Creates a dataset with the same extent and properties in the file `to`, without a link and without data. `type`: the
/// same type, or the copy of a committed type. `references` must have the fill_targets(). EIO; EOPNOTSUPP.
Result<Handle> make_dataset_like(hid_t from, hid_t type, hid_t to, PlaceholderFilters& placeholders,
                                 const ReferenceMap& references);

/// Whether libhdf5 refuses to create such a dataset: since 1.10.8, variable-length data may only have optional filters.
/// EIO.
Result<bool> cannot_be_made(hid_t dataset);

/// Copies, with its data and without attributes, a dataset that libhdf5 refuses to create: H5Ocopy does not check that.
/// EIO; EOPNOTSUPP: it has references or a committed type, which H5Ocopy would not preserve.
Result<Handle> copy_whole_dataset(hid_t from, hid_t to, PlaceholderFilters& placeholders);

/// Whether the data must be copied through libhdf5 (copy_elements()), because it has references or variable-length
/// values; otherwise use copy_storage().
Result<bool> data_needs_library(hid_t dataset);

/// Copies the stored bytes; `file_bytes` is the size of the source file. Unallocated data stays unallocated. EIO.
Result<> copy_storage(hid_t from, hid_t to, uint64_t file_bytes, const ReferenceMap& references);

/// Copies the data through libhdf5, which must have the filters. EIO, EOPNOTSUPP.
Result<> copy_elements(hid_t from, hid_t to, const ReferenceMap& references);

}  // namespace codecfs::hdf5
