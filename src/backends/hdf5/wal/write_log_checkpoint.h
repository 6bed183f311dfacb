#pragma once
// Copies committed ranges to the source, and reserves the space for it.
//
// Order of the writes: truncation, if the file was cut and has grown again; everything but the superblock; a sync; the
// superblock; a shorter size; a sync. Consecutive bytes of one sector (kSectorBytes) are written by one call, so that
// after an interruption each replaced piece has either its old or its final content (write_log_format.h).

#include <cstdint>

#include "backends/hdf5/wal/write_log_overlay.h"
#include "base/file_io.h"

namespace codecfs::hdf5 {

/// Whether overwriting this file may allocate disk space: on a copy-on-write filesystem, or in holes.
bool overwriting_allocates(const File& file);
/// Free bytes that this process may use on the filesystem; UINT64_MAX if unknown.
uint64_t available_space(const File& file);
/// The maximum file size of this process (RLIMIT_FSIZE).
uint64_t largest_file();

/// Checks, without changing anything, for free space on a copy-on-write filesystem and for the limit of the file size.
/// ENOSPC, EFBIG.
Result<> check_space(const Overlay& committed, const File& source);
/// Allocates the space by which the source grows or in which it has holes (fallocate). ENOSPC, EDQUOT, EFBIG.
Result<> reserve_space(FileIo& io, const Overlay& committed, const File& source);
/// Copies the ranges of `committed` from the log, and syncs. After an error any part of it may have been written;
/// `sync_failed` is set if a sync failed, after which the kernel may have dropped any of it.
Result<> copy_into_source(FileIo& io, const Overlay& committed, const File& log, const File& source, bool& sync_failed);

}  // namespace codecfs::hdf5
