#pragma once
// HDF5 datatypes for Zarr v2 dtypes: type_map.h the other way round.

#include "backends/hdf5/library/handle.h"
#include "base/result.h"
#include "model/data_type.h"

namespace codecfs::hdf5 {

/// The type of a new dataset that is to be shown as `type`; of object types `object_codec` tells what the objects are.
/// EOPNOTSUPP where HDF5 has none that reads back as the same. Under a LibraryLock.
Result<Handle> make_type(const DataType& type, const Json& object_codec);

/// h5py's boolean: an enumeration of FALSE and TRUE in one byte.
Handle make_boolean();
/// Text of variable length, UTF-8.
Handle make_text();

}  // namespace codecfs::hdf5
