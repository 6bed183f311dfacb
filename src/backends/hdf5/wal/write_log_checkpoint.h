#pragma once
// Copying what was committed into the source, and the room for that.
//
// The order of the writes: what is cut off, where the file grows again; everything but the superblock; a sync; the
// superblock; a shorter size; a sync. Consecutive bytes of one sector (kSectorBytes) are written by one call, so that
// an interrupted copy leaves each replaced piece old or final (write_log_format.h).

#include <cstdint>

#include "backends/hdf5/wal/write_log_overlay.h"
#include "base/file_io.h"

namespace codecfs::hdf5 {

/// Whether overwriting bytes of this file may take disk space: on a copy-on-write filesystem, or in holes.
bool overwriting_takes_room(const File& file);
/// Bytes that are free for us on its filesystem; UINT64_MAX where that cannot be told.
uint64_t free_room(const File& file);
/// The largest size that this process may give a file (RLIMIT_FSIZE).
uint64_t largest_file();

/// Whether there is room for what is overwritten on a copy-on-write filesystem, and no limit on the size, without
/// changing anything. ENOSPC, EFBIG.
Result<> check_room(const Overlay& committed, const File& source);
/// Takes the disk space that the source will grow by or fill holes with (fallocate). ENOSPC, EDQUOT, EFBIG.
Result<> take_room(FileIo& io, const Overlay& committed, const File& source);
/// Copies the ranges of `committed` from the log, and syncs. After an error any part of it may be done; `sync_failed`
/// tells whether it was one of a sync, after which the kernel may have dropped anything.
Result<> copy_into_source(FileIo& io, const Overlay& committed, const File& log, const File& source, bool& sync_failed);

}  // namespace codecfs::hdf5
