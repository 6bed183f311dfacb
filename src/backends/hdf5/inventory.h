#pragma once
// How much there is of what in an HDF5 file, to compare a copy with what it was made from. Under a LibraryLock.

#include <hdf5.h>

#include <cstdint>

#include "base/result.h"

namespace codecfs::hdf5 {

struct Inventory {
  uint64_t groups = 0;
  uint64_t datasets = 0;
  uint64_t types = 0;  // committed ones
  uint64_t links = 0;
  uint64_t attributes = 0;
  uint64_t chunks = 0;    // stored
  uint64_t bytes = 0;     // stored by datasets whose bytes are copied as they are
  uint64_t checksum = 0;  // of these bytes, summed over datasets
  bool operator==(const Inventory&) const = default;
};
/// Walks and reads the whole file, which has `file_bytes`. EIO.
Result<Inventory> take_inventory(hid_t file, uint64_t file_bytes);

}  // namespace codecfs::hdf5
