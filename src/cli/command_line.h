#pragma once
// The command line of codecfs: `codecfs [-F VARS,SPEC]... [-o OPTIONS] [-f] SOURCE MOUNTPOINT`, the commands that an
// option names (all.inc), and the arguments with which mount(8) calls mount.codecfs.

#include <memory>

#include "base/result.h"
#include "cli/command.h"

namespace codecfs::cli {

/// The command that a command line requests. EINVAL with a reason that names the argument.
Result<std::unique_ptr<Command>> parse_command_line(int argc, const char* const* argv);

}  // namespace codecfs::cli
