#pragma once
// The file driver of ours that lies under libhdf5: reads and writes through a LoggedFile (write_log.h), and the capture
// mark.
//
// Capture. Some answers of libhdf5 are slow to get by asking (where is this chunk: H5Dget_chunk_info_by_coord of 1.10
// walks the whole index) and quick to get by looking where it reads. While a CaptureScope lives, raw data reads
// (H5FD_MEM_DRAW) of this thread read nothing: their address, in bytes from the start of the file whatever its user
// block, and their size are recorded, and libhdf5 is told that all went well. Metadata is read as always.
//
// Writing. What libhdf5 writes goes to the LoggedFile of the OpenScope that the file was opened in; whoever made that
// decides whether it ever comes to the source. Other files that libhdf5 opens for writing (the sources of virtual
// datasets, where the dataset's file is open for writing) keep what is written to themselves and lose it at close.
//
// Besides: a file that a crashed writer left marked as open (superblock version 3) is shown to libhdf5 without the
// mark, and the mark is never written. Metadata beyond the end of a truncated file reads as zeros, which libhdf5 finds
// wrong; raw data there is an error, unless the file is open for writing: then libhdf5 has found it to be whole, and
// what it has allocated beyond its end and not written reads as zeros, as with libhdf5's own drivers. There are no lock
// callbacks: libhdf5 would refuse files on filesystems without locks.

#include <hdf5.h>

#include <cstdint>

#include "backends/hdf5/wal/write_log.h"

namespace codecfs::hdf5 {

/// The driver's identifier, registered at the first call (under a LibraryLock); negative on failure.
hid_t file_driver();

/// While it lives, the next file that libhdf5 opens in this thread is `file`, which outlives it.
class OpenScope {
 public:
  explicit OpenScope(LoggedFile& file);
  ~OpenScope();
  OpenScope(const OpenScope&) = delete;
  OpenScope& operator=(const OpenScope&) = delete;
};

/// Whether this part of the file belongs to the space that libhdf5 has allocated in a file that it has open for
/// writing. Under a LibraryLock.
bool is_allocated(const LoggedFile& file, uint64_t address, uint64_t size);

/// Whether the file of this name bears the mark of a writer that has it open or crashed. False where it cannot be read.
bool marked_as_open(int fd);

/// What a CaptureScope saw.
struct Captured {
  uint64_t address = 0;  // bytes from the start of the file
  uint64_t size = 0;     // bytes
  unsigned reads = 0;    // number of raw data reads; address and size are the latest one's
};

class CaptureScope {
 public:
  CaptureScope();
  ~CaptureScope();
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;
  [[nodiscard]] const Captured& seen() const { return seen_; }

 private:
  Captured seen_;
};

}  // namespace codecfs::hdf5
