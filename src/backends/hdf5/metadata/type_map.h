#pragma once
// How an HDF5 datatype is shown as a Zarr v2 dtype (mounted-tree.md, row "dtype").

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/hdf5/library/handle.h"
#include "base/result.h"
#include "model/data_type.h"

namespace codecfs::hdf5 {

struct MappedType {
  DataType type;                    // of one presented element
  std::vector<uint64_t> shape;      // where the HDF5 element is an array of those: its dimensions, else empty
  Handle memory;                    // what H5Dread must be asked for to get the bytes that `type` says
  bool converts = false;            // stored bytes are not those bytes: they must go through libhdf5
  bool tell = false;                // numpy's name does not tell it all
  bool text = false;                // variable-length strings: `memory` reads char*, `type` is object
  std::optional<Error> unreadable;  // EOPNOTSUPP: elements have no Zarr form; `type` is raw bytes of their stored size

  /// Presented elements in one HDF5 element.
  [[nodiscard]] uint64_t count() const;
};

/// Under a LibraryLock. EIO for a type that libhdf5 cannot describe, or of more than 1 GiB.
Result<MappedType> map_type(hid_t file_type);

/// The type in HDF5's own language (DDL), for user._Type. Empty where libhdf5 cannot print it.
std::string type_text(hid_t type);

/// Whether the enumeration is h5py's boolean: FALSE = 0 and TRUE = 1 in one byte.
bool is_boolean(hid_t enumeration);
/// Whether the compound is a complex number as h5py and others store it: {r, i} of one float type.
bool is_complex(hid_t compound);

}  // namespace codecfs::hdf5
