#pragma once
// Maps an HDF5 datatype to a Zarr v2 dtype.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/hdf5/library/handle.h"
#include "base/result.h"
#include "model/data_type.h"
#include "model/ended_strings.h"

namespace codecfs::hdf5 {

struct MappedType {
  DataType type;                    // of one presented element
  std::vector<uint64_t> shape;      // the dimensions of an HDF5 array type, whose base type is `type`; else empty
  Handle memory;                    // the memory type for H5Dread that gives the bytes that `type` describes
  bool converts = false;            // stored bytes differ from these bytes: libhdf5 must convert them
  bool tell = false;                // numpy's name loses information about the type
  bool text = false;                // variable-length strings: `memory` reads char*, `type` is object
  std::vector<EndedString> ended;   // in an element of `type`
  std::string zarr3_name;           // "bfloat16": of a float that numpy lacks and Zarr v3 has, which is raw bytes here
  std::optional<Error> unreadable;  // EOPNOTSUPP: elements have no Zarr form; `type` is raw bytes of their stored size

  /// Presented elements per HDF5 element.
  [[nodiscard]] uint64_t count() const;
};

/// Under a LibraryLock. EIO for a type that libhdf5 cannot describe.
Result<MappedType> map_type(hid_t file_type);

/// The tag of the opaque type as which h5py stores a numpy type that HDF5 does not have: "NUMPY:<U10", "NUMPY:<M8[ns]".
/// None for other types.
std::optional<std::string> tag_of(const DataType& type);

/// The type in HDF5's DDL, for user._Type. Empty if libhdf5 cannot print it.
std::string type_text(hid_t type);

/// Whether the enumeration is h5py's boolean: FALSE = 0 and TRUE = 1 in one byte.
bool is_boolean(hid_t enumeration);
/// Whether the compound is a complex number in h5py's form: {r, i} of one float type.
bool is_complex(hid_t compound);

}  // namespace codecfs::hdf5
