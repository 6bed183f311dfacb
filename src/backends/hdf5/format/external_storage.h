#pragma once
// Data of an HDF5 dataset that lies in other, plain files: a list of segments that follow each other.

#include <cstdint>
#include <string>
#include <vector>

#include "backends/hdf5/source/source_file.h"
#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::hdf5 {

class ExternalStorage {
 public:
  /// The list in a dataset's creation properties. Under a LibraryLock. Files are not opened yet. EIO.
  static Result<ExternalStorage> make(hid_t properties, const SourceFile& source);

  /// Bytes from `begin` of the data on. As in libhdf5, what lies beyond the end of a file reads as zeros. EIO,
  /// EACCES and the like where a file cannot be opened, EIO beyond the last segment.
  Result<> read(uint64_t begin, MutableBytes to) const;

 private:
  struct Segment {
    std::string path;
    uint64_t offset = 0;  // in its file
    uint64_t begin = 0;   // in the data
    uint64_t size = 0;
  };
  std::vector<Segment> segments_;
};

}  // namespace codecfs::hdf5
