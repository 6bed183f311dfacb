#pragma once
// Where libhdf5 would read raw data. libhdf5 is slow to report some addresses (H5Dget_chunk_info_by_coord of 1.10 scans
// the whole chunk index for one chunk), but it finds them quickly when it reads. During the lifetime of a
// CapturedReads, raw data reads (H5FD_MEM_DRAW) of this thread read nothing: our file driver (wal/file_driver.h) notes
// them here and reports success. Metadata is read as usual.

#include <cstdint>

namespace codecfs::hdf5 {

/// The raw data reads that were noted.
struct Captured {
  uint64_t address = 0;  // bytes from the start of the file, including a user block
  uint64_t size = 0;     // bytes
  unsigned reads = 0;    // number of reads; address and size are those of the latest
};

class CapturedReads {
 public:
  CapturedReads();
  ~CapturedReads();
  CapturedReads(const CapturedReads&) = delete;
  CapturedReads& operator=(const CapturedReads&) = delete;
  [[nodiscard]] const Captured& seen() const { return seen_; }

  /// For the file driver: notes a raw data read of this thread. False if none are captured: the driver must read.
  static bool note(uint64_t address, uint64_t size);

 private:
  Captured seen_;
};

}  // namespace codecfs::hdf5
