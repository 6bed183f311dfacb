#pragma once
// Our virtual file driver for libhdf5: reads and writes through a LoggedFile (write_log.h). Besides, it notes
// where raw data is read (library/captured_reads.h), and hides the mark of an open file.
//
// Writing: libhdf5's writes go to the LoggedFile of the OpenScope in which the file was opened; the owner of that
// LoggedFile decides whether they reach the source. Other files that libhdf5 opens for writing (the sources of a
// virtual dataset whose file is open for writing) keep writes in memory and discard them at close.
//
// Open mark: a file that a crashed writer left marked as open (superblock version 3) is shown to libhdf5 without the
// mark, and the mark is never written.
//
// End of file: metadata beyond the end of a truncated file reads as zeros, which libhdf5 rejects. Raw data beyond it is
// an error, unless the file is open for writing: libhdf5 has then verified the file's length, and allocated but
// unwritten space reads as zeros, as with libhdf5's own drivers.
//
// There are no lock callbacks: libhdf5 would refuse files on filesystems without locks.

#include <hdf5.h>

#include <cstdint>

#include "backends/hdf5/wal/write_log.h"

namespace codecfs::hdf5 {

/// The driver's identifier, registered at the first call (under a LibraryLock); negative on failure. `family`: for a
/// file of HDF5's family driver, which libhdf5 opens only with a driver of that name.
hid_t file_driver(bool family = false);

/// During its lifetime, the next file that this thread opens with libhdf5 uses `file`, which must outlive the open
/// file.
class OpenScope {
 public:
  explicit OpenScope(LoggedFile& file);
  ~OpenScope();
  OpenScope(const OpenScope&) = delete;
  OpenScope& operator=(const OpenScope&) = delete;
};

/// Whether libhdf5 has allocated this range in a file that it has open for writing. Under a LibraryLock.
bool is_allocated(const LoggedFile& file, uint64_t address, uint64_t size);

/// Whether the file has the mark of a writer that has it open or crashed. False if it cannot be read.
bool marked_as_open(int fd);

}  // namespace codecfs::hdf5
