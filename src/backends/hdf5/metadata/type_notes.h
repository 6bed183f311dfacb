#pragma once
// HDF5 datatypes as JSON, for copies in formats that do not have them (kStoredTypes). The inverse makes a type of JSON
// that any program may have changed. All calls under a LibraryLock.

#include "backends/hdf5/library/handle.h"
#include "backends/hdf5/metadata/type_map.h"
#include "model/json.h"

namespace codecfs::hdf5 {

/// A number is its dtype ("<i4"); other types are objects:
///   {"string": SIZE or null, "pad": "null", "zero" or "space", "utf8": BOOL}   null: of variable length
///   {"enum": [[NAME, VALUE], ...], "of": TYPE}   {"bits": SIZE}   {"opaque": SIZE, "tag": TEXT}
///   {"array": [LENGTH, ...], "of": TYPE}   {"sequence": TYPE}   {"complex": TYPE}   H5T_COMPLEX
///   {"compound": SIZE, "members": [[NAME, OFFSET, TYPE], ...]}
/// The type of a dataset without a shape (H5S_NULL), in Variable::stored_type alone, is {"empty": TYPE or null}.
/// Null if the type has no such form (references, unusual numbers), or is not the same after make_described().
Json describe_type(hid_t type);
/// Variable::stored_type of a variable of this type, which is mapped as `mapped`.
JsonValue stored_type_of(hid_t type, const MappedType& mapped);
/// Invalid if the JSON describes none. Without `native_complex`, complex numbers are h5py's compounds.
Handle make_described(const Json& described, bool native_complex);

}  // namespace codecfs::hdf5
