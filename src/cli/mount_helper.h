#pragma once
// The helper programs of mount(8) and umount(8), which codecfs is if it is called by their names.

#include <memory>

#include "base/result.h"
#include "cli/command.h"

namespace codecfs::cli {

/// mount.codecfs SOURCE DIRECTORY [-sfnv] [-N NAMESPACE] [-t TYPE] [-o OPTIONS]. EINVAL with a reason that names the
/// argument.
Result<std::unique_ptr<Command>> parse_mount_helper(int argc, const char* const* argv);

/// umount.fuse.codecfs DIRECTORY [-flnrv]: stores, unmounts, waits. Returns the exit code of umount(8): 0, 1 for a
/// usage error, 32 for a failure, which is reported on stderr.
int run_umount_helper(int argc, const char* const* argv);

}  // namespace codecfs::cli
