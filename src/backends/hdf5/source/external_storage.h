#pragma once
// Data of an HDF5 dataset in external raw files: a list of consecutive segments.

#include <cstdint>
#include <string>
#include <vector>

#include "backends/hdf5/source/source_file.h"
#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::hdf5 {

class ExternalStorage {
 public:
  /// Reads the list from a dataset's creation properties. Under a LibraryLock. Opens no files yet. EIO.
  static Result<ExternalStorage> make(hid_t properties, const SourceFile& source);

  /// Reads the data from `begin` on. As in libhdf5, bytes beyond the end of a file are zeros. EIO, EACCES and similar
  /// if a file cannot be opened, EIO beyond the last segment.
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
