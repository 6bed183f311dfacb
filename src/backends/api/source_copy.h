#pragma once
// Copies of whole files, and new stores that are being written.

#include <functional>
#include <string>

#include "base/result.h"

namespace codecfs {

/// Copies an HDF5 file byte by byte to `to`, which is created or replaced, with the changes in the log of a killed
/// mount beside it, and syncs the copy. Holes stay holes; filesystems that can share the blocks do. Locks and marks of
/// the source are not copied. ECANCELED if `cancelled` returns true; EBUSY: another program writes the file; EROFS: it
/// is marked as open for writing; EOPNOTSUPP: it is a family of files; ESTALE: it was changed meanwhile; ENOSPC. After
/// an error the content of `to` is of no use.
Result<> copy_hdf5_file(const std::string& from, const std::string& to, const std::function<bool()>& cancelled);

/// The object below the key of a store that is being written, with what is known of it: until it is removed, there is
/// no store.
inline constexpr const char* kPartialNote = ".codecfs-partial.json";

}  // namespace codecfs
