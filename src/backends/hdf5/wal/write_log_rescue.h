#pragma once
// Sources that were deleted while they are written: `mv` to another filesystem copies a file and deletes it, another
// file is renamed over it, or it is removed.
//
// A copy that another program made lacks what is in the log, and may have parts of a checkpoint. So when writing ends,
// the whole content, which the open descriptors of the source and its log still give, is written to a new file beside
// the log, and only then the log is removed.

#include <string>

#include "base/file_io.h"

namespace codecfs::hdf5 {

/// The current path of an open file according to the kernel; not a valid path if it was deleted.
std::string present_path(int fd);
/// Whether an open file was deleted. Network filesystems and FUSE keep such a file under a hidden name until it is
/// closed.
bool has_no_name(int fd);
/// Whether a user has given up the changes in an open log: it was deleted, and not together with its directory, which
/// `mv` to another filesystem does.
bool is_given_up(const File& log);
/// What to do about a log that a mount holds for a deleted source.
std::string how_to_end_deleted(const File& log);

}  // namespace codecfs::hdf5
