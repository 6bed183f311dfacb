#pragma once
// The class of complex numbers that HDF5 2.0 has added (H5T_COMPLEX): two numbers of a base type, the real part first.
// Earlier versions cannot open such types.

#include <hdf5.h>

#include "backends/hdf5/library/handle.h"

namespace codecfs::hdf5 {

/// The type of the parts. None if the type is not of this class. Under a LibraryLock.
inline Handle complex_part([[maybe_unused]] hid_t type) {
#if H5_VERSION_GE(2, 0, 0)
  if (H5Tget_class(type) == H5T_COMPLEX) return Handle(H5Tget_super(type));
#endif
  return {};
}

}  // namespace codecfs::hdf5
