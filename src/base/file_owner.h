#pragma once
// Ownership of files that we create for a dataset: they must not be accessible to users that cannot access the dataset.

#include <sys/stat.h>

#include "base/result.h"

namespace codecfs {

/// Gives a newly created open file the owner, group and mode (07777) of `other`, as far as we are permitted: only root
/// can change the owner. If the group cannot be set, the group of the new file gets no more permissions than the mode
/// gives to all other users.
Result<> make_like(int file, const struct stat& other);

enum class Attributes { none, user };
/// Gives a newly created open file or directory the owner, group, mode and access control lists of another one, as far
/// as we are permitted (only root can change the owner), and with Attributes::user also its extended attributes but
/// user.codecfs.*, which describe that file alone. It is never more accessible than the other: lists that it has
/// inherited from its directory are removed. EOPNOTSUPP if a list or a user.* attribute cannot be copied.
Result<> make_like(int file, int other, Attributes attributes);

/// Gives a new file or directory a mode, and the owner and group of the directory that contains it.
Result<> make_in_directory(int file, int directory, mode_t mode);

}  // namespace codecfs
