#pragma once
// HDF5 datatypes for Zarr v2 dtypes: the inverse of type_map.h.

#include <string_view>

#include "backends/hdf5/library/handle.h"
#include "base/result.h"
#include "model/data_type.h"

namespace codecfs::hdf5 {

/// The datatype of a new dataset that must be shown as `type`; for object types `object_codec` defines the objects.
/// `zarr3_name`: Variable::zarr3_type; types of which HDF5 has no float become opaque bytes, or integers.
/// EOPNOTSUPP if no datatype maps back to the same dtype. Under a LibraryLock.
Result<Handle> make_type(const DataType& type, const Json& object_codec, std::string_view zarr3_name = {});

/// h5py's boolean: an enumeration of FALSE and TRUE in one byte.
Handle make_boolean();
/// A variable-length string, UTF-8.
Handle make_text();

}  // namespace codecfs::hdf5
