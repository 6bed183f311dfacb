#pragma once
// Finds out why libhdf5 does not know a version that an object has: a newer HDF5 wrote it, or it is damaged. libhdf5
// reports both in the same way.
//
// What has a checksum is as it was written. Without one (object headers of version 1), only forms that a released
// version of HDF5 writes count as newer: a changed byte seldom makes one of these. The input may be damaged or hostile.
// Source: HDF5 File Format Specification 4.0, and the library of version 2.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::hdf5 {

/// Reads up to to.size() bytes of the file, fewer only at its end, and returns how many.
using ReadFile = std::function<Result<size_t>(uint64_t offset, MutableBytes to)>;

/// Why libhdf5 cannot read an object, or its attributes (attributes_of_object()), if a newer HDF5 wrote it. Nothing is
/// found in indexes of shared messages. `has_failed`: libhdf5 has failed on it. Only then attributes outside of the
/// object header are looked for, as a heap may still have some that were removed.
std::optional<std::string> find_newer_form(const ReadFile& read, uint64_t address, bool has_failed = true);
/// Why libhdf5 cannot read the superblock, if a newer HDF5 wrote it.
std::optional<std::string> find_newer_superblock(const ReadFile& read);

}  // namespace codecfs::hdf5
