#pragma once
// Datasets made anew in another HDF5 file with everything but their names and attributes. Chunks are copied as they are
// stored, undecoded, where their bytes mean the same in every file. All functions under a LibraryRead.

#include <hdf5.h>

#include <cstdint>

#include "backends/hdf5/library/handle.h"
#include "backends/hdf5/library/placeholder_filters.h"
#include "backends/hdf5/metadata/reference_map.h"
#include "base/result.h"

namespace codecfs::hdf5 {

/// A dataset of the same extent and properties in the file `to`, without a name and without data. `type`: the same, or
/// the copy of that where it is a committed one. EIO; EOPNOTSUPP.
Result<Handle> make_dataset_like(hid_t from, hid_t type, hid_t to, PlaceholderFilters& stand_ins);

/// Whether libhdf5 refuses to make such a dataset: since 1.10.8, data of variable length may only have filters that are
/// optional. EIO.
Result<bool> cannot_be_made(hid_t dataset);

/// A copy, with its data and without attributes, of a dataset that cannot be made: libhdf5 copies what it would not
/// make. EIO; EOPNOTSUPP: it has references or a committed type, which would become another one.
Result<Handle> copy_whole_dataset(hid_t from, hid_t to, PlaceholderFilters& stand_ins);

/// Whether the data has to go through libhdf5, as it holds references or is of variable length. Then copy_elements()
/// copies it, else copy_storage().
Result<bool> data_needs_library(hid_t dataset);

/// Data as it is stored; `file_bytes` is the size of the file that it is read from. What was never stored is not in the
/// copy either. EIO.
Result<> copy_storage(hid_t from, hid_t to, uint64_t file_bytes, const ReferenceMap& references);

/// Data through libhdf5, which has the filters. EIO, EOPNOTSUPP.
Result<> copy_elements(hid_t from, hid_t to, const ReferenceMap& references);

}  // namespace codecfs::hdf5
