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

/// A type of this class. None if the linked libhdf5 has no such class. Under a LibraryLock.
inline Handle make_native_complex([[maybe_unused]] hid_t part) {
#if H5_VERSION_GE(2, 0, 0)
  return Handle(H5Tcomplex_create(part));
#else
  return {};
#endif
}

/// Whether the file of this object is written with forms that only HDF5 2.0 and later read (Hdf5Options::latest), to
/// which types of this class belong. Under a LibraryLock.
inline bool takes_native_complex([[maybe_unused]] hid_t object) {
#if H5_VERSION_GE(2, 0, 0)
  const Handle file(H5Iget_file_id(object));
  const Handle access(H5Fget_access_plist(file.get()));
  H5F_libver_t low = H5F_LIBVER_EARLIEST;
  H5F_libver_t high = H5F_LIBVER_EARLIEST;
  return H5Pget_libver_bounds(access.get(), &low, &high) >= 0 && low >= H5F_LIBVER_V200;
#else
  return false;
#endif
}

}  // namespace codecfs::hdf5
