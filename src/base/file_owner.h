#pragma once
// Whose the files are that we make: nobody may read or write them who could not do so with what they stand for.

#include <sys/stat.h>

#include "base/result.h"

namespace codecfs {

/// Gives an open file that we have just made the owner, group and mode (07777) of another, as far as we may: only root
/// can give files away. Where the group cannot be given, ours gets no more of the mode than all others.
Result<> make_like(int file, const struct stat& other);

/// The same, with a mode, for a file or directory in a directory: it belongs to whom that belongs to.
Result<> make_in_directory(int file, int directory, mode_t mode);

}  // namespace codecfs
