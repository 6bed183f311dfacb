#pragma once
// Chooses how decoded chunks of a mount reach their readers.

#include "base/result.h"
#include "fs/kernel/operations.h"
#include "fs/passthrough/fuse_version.h"
#include "mount/options.h"

namespace codecfs::mount {

/// Must be called before the mount. EINVAL: the user wants passthrough, which mounts with these options do not have.
Result<> check_transport(const Options& options, const fs::Mount& mount);
/// Must be called after the mount and before the session serves requests. If passthrough may be used, answers the
/// kernel's first request, because a backing file can only be tried after that. EINVAL, EOPNOTSUPP, EPERM, ENOMEM: the
/// user wants passthrough, which is not possible here.
Result<> choose_transport(const Options& options, fuse_session* session, fs::Mount& mount);

}  // namespace codecfs::mount
